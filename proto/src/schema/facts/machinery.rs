//! Facts about the fields of object metadata, custom resources and aggregated APIs, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.apiserverinternal.v1alpha1
ServerStorageVersion . decodableVersions servedVersions: set
StorageVersion . spec status: always
StorageVersionCondition . lastTransitionTime: always
StorageVersionStatus
  commonEncodingVersion: pointer
  conditions: map(type)
  storageVersions: map(apiServerID)
package io.k8s.api.storagemigration.v1beta1
StorageVersionMigration . spec status: always
StorageVersionMigrationStatus . conditions: map(type) merge(type)
package io.k8s.apimachinery.pkg.apis.meta.v1
APIGroup APIVersions . serverAddressByClientCIDRs versions: atomic
APIGroupList . groups: atomic
APIResource . categories shortNames: atomic
APIResourceList . resources: atomic
DeleteOptions
  dryRun: atomic
  gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential orphanDependents propagationPolicy: pointer
FieldSelectorRequirement LabelSelectorRequirement . values: atomic
LabelSelector: atomic-map
  matchExpressions: atomic
ListMeta . remainingItemCount: pointer
ObjectMeta
  deletionGracePeriodSeconds: pointer
  finalizers: set merge
  managedFields: atomic pointer
  ownerReferences: map(uid) merge(uid)
OwnerReference: atomic-map
  blockOwnerDeletion controller: pointer
Preconditions . resourceVersion uid: pointer
StatusDetails . causes: atomic
package io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceDefinition . status: always
CustomResourceDefinitionCondition . lastTransitionTime: always
CustomResourceDefinitionNames . categories shortNames: atomic
CustomResourceDefinitionSpec . versions: atomic
CustomResourceDefinitionStatus
  acceptedNames: always
  conditions: map(type) always
  storedVersions: atomic always
CustomResourceDefinitionVersion
  additionalPrinterColumns selectableFields: atomic
  deprecationWarning: pointer
CustomResourceSubresourceScale . labelSelectorPath: pointer
JSONSchemaProps
  $ref maxItems maxLength maxProperties maximum minItems minLength minProperties minimum multipleOf x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-preserve-unknown-fields: pointer
  allOf anyOf enum oneOf required x-kubernetes-list-map-keys: atomic
  x-kubernetes-validations: map(rule) merge(rule)
ServiceReference . path port: pointer
ValidationRule
  optionalOldSelf: pointer
  reason: enum(FieldValueDuplicate,FieldValueForbidden,FieldValueInvalid,FieldValueRequired) pointer
WebhookClientConfig . url: pointer
WebhookConversion . conversionReviewVersions: atomic
package io.k8s.kube-aggregator.pkg.apis.apiregistration.v1
APIService . spec status: always
APIServiceCondition . lastTransitionTime: always
APIServiceSpec . caBundle: atomic
APIServiceStatus . conditions: map(type) merge(type)
ServiceReference . port: pointer
"#;
