//! Field numbers of object metadata, custom resources and aggregated APIs, in the notation of
//! `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.apiserverinternal.v1alpha1
ServerStorageVersion: apiServerID encodingVersion decodableVersions servedVersions
StorageVersion: metadata spec status
StorageVersionCondition: type status observedGeneration lastTransitionTime reason message
StorageVersionStatus: storageVersions commonEncodingVersion conditions
package io.k8s.api.storagemigration.v1beta1
StorageVersionMigration: metadata spec status
StorageVersionMigrationSpec: resource
StorageVersionMigrationStatus: conditions resourceVersion
package io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceColumnDefinition: name type format description priority jsonPath
CustomResourceConversion: strategy webhook
CustomResourceDefinition: metadata spec status
CustomResourceDefinitionCondition: type status lastTransitionTime reason message observedGeneration
CustomResourceDefinitionNames: plural singular shortNames kind listKind categories
CustomResourceDefinitionSpec: group _ names scope _ _ versions _ conversion preserveUnknownFields
CustomResourceDefinitionStatus: conditions acceptedNames storedVersions observedGeneration
CustomResourceDefinitionVersion: name served storage schema subresources additionalPrinterColumns deprecated
  deprecationWarning selectableFields
CustomResourceSubresourceScale: specReplicasPath statusReplicasPath labelSelectorPath
CustomResourceSubresources: status scale
CustomResourceValidation: openAPIV3Schema
ExternalDocumentation: description url
JSONSchemaProps: id $schema $ref description type format title default maximum exclusiveMaximum minimum
  exclusiveMinimum maxLength minLength pattern maxItems minItems uniqueItems multipleOf enum maxProperties
  minProperties required items allOf oneOf anyOf not properties additionalProperties patternProperties dependencies
  additionalItems definitions externalDocs example nullable x-kubernetes-preserve-unknown-fields
  x-kubernetes-embedded-resource x-kubernetes-int-or-string x-kubernetes-list-map-keys x-kubernetes-list-type
  x-kubernetes-map-type x-kubernetes-validations
SelectableField: jsonPath
ServiceReference: namespace name path port
ValidationRule: rule message messageExpression reason fieldPath optionalOldSelf
WebhookClientConfig: service caBundle url
WebhookConversion: _ clientConfig conversionReviewVersions
package io.k8s.apimachinery.pkg.apis.meta.v1
Condition: type status observedGeneration lastTransitionTime reason message
DeleteOptions: gracePeriodSeconds preconditions orphanDependents propagationPolicy dryRun
  ignoreStoreReadErrorWithClusterBreakingPotential
GroupResource: group resource
FieldSelectorRequirement LabelSelectorRequirement: key operator values
LabelSelector: matchLabels matchExpressions
ListMeta: selfLink resourceVersion continue remainingItemCount
ManagedFieldsEntry: manager operation apiVersion time _ fieldsType fieldsV1 subresource
ObjectMeta: name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp
  deletionGracePeriodSeconds labels annotations ownerReferences finalizers _ _ managedFields
OwnerReference: kind _ name uid apiVersion controller blockOwnerDeletion
Preconditions: uid resourceVersion
Status: metadata status message reason details code
StatusCause: reason message field
StatusDetails: name group kind causes retryAfterSeconds uid
package io.k8s.kube-aggregator.pkg.apis.apiregistration.v1
APIService: metadata spec status
APIServiceCondition: type status lastTransitionTime reason message
APIServiceSpec: service group version insecureSkipTLSVerify caBundle _ groupPriorityMinimum versionPriority
APIServiceStatus: conditions
ServiceReference: namespace name port
"#;
