//! Field numbers of identities, roles, flow control and admission, in the notation of `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.admissionregistration.v1
ApplyConfiguration JSONPatch: expression
AuditAnnotation: key valueExpression
ExpressionWarning: _ fieldRef warning
MatchCondition Variable: name expression
MatchResources: namespaceSelector objectSelector resourceRules excludeResourceRules _ _ matchPolicy
MutatingAdmissionPolicy MutatingAdmissionPolicyBinding ValidatingAdmissionPolicyBinding: metadata spec
MutatingAdmissionPolicyBindingSpec: policyName paramRef matchResources
MutatingAdmissionPolicySpec: paramKind matchConstraints variables mutations failurePolicy matchConditions
  reinvocationPolicy
MutatingWebhook: name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds
  admissionReviewVersions matchPolicy reinvocationPolicy objectSelector matchConditions
MutatingWebhookConfiguration ValidatingWebhookConfiguration: metadata webhooks
Mutation: _ patchType applyConfiguration jsonPatch
NamedRuleWithOperations: resourceNames +RuleWithOperations
ParamKind: apiVersion kind
ParamRef: name namespace selector parameterNotFoundAction
Rule: apiGroups apiVersions resources scope
RuleWithOperations: operations +Rule
ServiceReference: namespace name path port
TypeChecking: expressionWarnings
ValidatingAdmissionPolicy: metadata spec status
ValidatingAdmissionPolicyBindingSpec: policyName paramRef matchResources validationActions
ValidatingAdmissionPolicySpec: paramKind matchConstraints validations failurePolicy auditAnnotations matchConditions
  variables
ValidatingAdmissionPolicyStatus: observedGeneration typeChecking conditions
ValidatingWebhook: name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds
  admissionReviewVersions matchPolicy objectSelector matchConditions
Validation: expression message reason messageExpression
WebhookClientConfig: service caBundle url
package io.k8s.api.authentication.v1
BoundObjectReference: kind apiVersion name uid
SelfSubjectReview: metadata status
SelfSubjectReviewStatus: userInfo
TokenRequest TokenReview: metadata spec status
TokenRequestSpec: audiences _ boundObjectRef expirationSeconds
TokenRequestStatus: token expirationTimestamp
TokenReviewSpec: token audiences
TokenReviewStatus: authenticated user error audiences
UserInfo: username uid groups extra
package io.k8s.api.authorization.v1
FieldSelectorAttributes LabelSelectorAttributes: rawSelector requirements
LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview: metadata spec status
NonResourceAttributes: path verb
NonResourceRule: verbs nonResourceURLs
ResourceAttributes: namespace verb group version resource subresource name fieldSelector labelSelector
ResourceRule: verbs apiGroups resources resourceNames
SelfSubjectAccessReviewSpec: resourceAttributes nonResourceAttributes
SelfSubjectRulesReviewSpec: namespace
SubjectAccessReviewSpec: resourceAttributes nonResourceAttributes user groups extra uid
SubjectAccessReviewStatus: allowed reason evaluationError denied
SubjectRulesReviewStatus: resourceRules nonResourceRules incomplete evaluationError
package io.k8s.api.certificates.v1
CertificateSigningRequest: metadata spec status
CertificateSigningRequestCondition: type reason message lastUpdateTime lastTransitionTime status
CertificateSigningRequestSpec: request username uid groups usages extra signerName expirationSeconds
CertificateSigningRequestStatus: conditions certificate
package io.k8s.api.certificates.v1alpha1
ClusterTrustBundle: metadata spec
ClusterTrustBundleSpec: signerName trustBundle
package io.k8s.api.certificates.v1beta1
ClusterTrustBundle: metadata spec
ClusterTrustBundleSpec: signerName trustBundle
PodCertificateRequest: metadata spec status
PodCertificateRequestSpec: signerName podName podUID serviceAccountName serviceAccountUID nodeName nodeUID
  maxExpirationSeconds pkixPublicKey proofOfPossession unverifiedUserAnnotations stubPKCS10Request
PodCertificateRequestStatus: conditions certificateChain _ notBefore beginRefreshAt notAfter
package io.k8s.api.flowcontrol.v1
ExemptPriorityLevelConfiguration: nominalConcurrencyShares lendablePercent
FlowDistinguisherMethod: type
FlowSchema PriorityLevelConfiguration: metadata spec status
FlowSchemaCondition PriorityLevelConfigurationCondition: type status lastTransitionTime reason message
FlowSchemaSpec: priorityLevelConfiguration matchingPrecedence distinguisherMethod rules
FlowSchemaStatus PriorityLevelConfigurationStatus: conditions
GroupSubject PriorityLevelConfigurationReference UserSubject: name
LimitResponse: type queuing
LimitedPriorityLevelConfiguration: nominalConcurrencyShares limitResponse lendablePercent borrowingLimitPercent
NonResourcePolicyRule: verbs 6=nonResourceURLs
PolicyRulesWithSubjects: subjects resourceRules nonResourceRules
PriorityLevelConfigurationSpec: type limited exempt
QueuingConfiguration: queues handSize queueLengthLimit
ResourcePolicyRule: verbs apiGroups resources clusterScope namespaces
ServiceAccountSubject: namespace name
Subject: kind user group serviceAccount
package io.k8s.api.rbac.v1
AggregationRule: clusterRoleSelectors
ClusterRole: metadata rules aggregationRule
ClusterRoleBinding RoleBinding: metadata subjects roleRef
PolicyRule: verbs apiGroups resources resourceNames nonResourceURLs
Role: metadata rules
RoleRef: apiGroup kind name
Subject: kind apiGroup name namespace
"#;
