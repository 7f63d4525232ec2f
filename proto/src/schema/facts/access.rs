//! Facts about the fields of identities, roles, flow control and admission, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.authentication.v1
SelfSubjectReview TokenReview . status: always
SelfSubjectReviewStatus . userInfo: always
TokenRequest . spec status: always
TokenRequestSpec
  audiences: atomic
  boundObjectRef expirationSeconds: null
TokenReviewSpec
  audiences: atomic
  token: omitempty
TokenReviewStatus
  audiences: atomic
  user: always
UserInfo . groups: atomic
package io.k8s.api.authorization.v1
FieldSelectorAttributes LabelSelectorAttributes . requirements: atomic
LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview . status: always
NonResourceRule . nonResourceURLs verbs: atomic
ResourceRule . apiGroups resourceNames resources verbs: atomic
SubjectAccessReviewSpec . groups: atomic
SubjectRulesReviewStatus . nonResourceRules resourceRules: atomic
package io.k8s.api.certificates.v1
CertificateSigningRequest . status: always
CertificateSigningRequestCondition . lastTransitionTime lastUpdateTime: always
CertificateSigningRequestSpec
  expirationSeconds: pointer
  groups usages: atomic
CertificateSigningRequestStatus . conditions: map(type)
package io.k8s.api.certificates.v1beta1
PodCertificateRequest . status: always
PodCertificateRequestSpec
  maxExpirationSeconds: pointer
  stubPKCS10Request: null
PodCertificateRequestStatus . conditions: map(type) merge(type)
package io.k8s.api.rbac.v1
AggregationRule . clusterRoleSelectors: atomic
ClusterRole Role . rules: atomic always
ClusterRoleBinding RoleBinding . subjects: atomic
PolicyRule . apiGroups nonResourceURLs resourceNames resources verbs: atomic
RoleRef Subject: atomic-map
package io.k8s.api.flowcontrol.v1
ExemptPriorityLevelConfiguration . lendablePercent nominalConcurrencyShares: pointer
FlowSchema PriorityLevelConfiguration . spec status: always
FlowSchemaCondition PriorityLevelConfigurationCondition . lastTransitionTime: always
FlowSchemaSpec
  matchingPrecedence: always
  rules: atomic
FlowSchemaStatus PriorityLevelConfigurationStatus . conditions: map(type) merge(type)
LimitedPriorityLevelConfiguration
  borrowingLimitPercent lendablePercent nominalConcurrencyShares: pointer
  limitResponse: always
NonResourcePolicyRule . nonResourceURLs verbs: set
PolicyRulesWithSubjects . nonResourceRules resourceRules subjects: atomic
QueuingConfiguration . handSize queueLengthLimit queues: always
ResourcePolicyRule . apiGroups namespaces resources verbs: set
package io.k8s.api.admissionregistration.v1
MatchResources: atomic-map
  excludeResourceRules resourceRules: atomic
  matchPolicy: enum(Equivalent,Exact) pointer
MutatingAdmissionPolicy MutatingAdmissionPolicyBinding . spec: always
MutatingAdmissionPolicySpec
  failurePolicy: enum(Fail,Ignore) pointer
  matchConditions: map(name) merge(name)
  mutations variables: atomic
  reinvocationPolicy: enum(IfNeeded,Never)
MutatingWebhook
  admissionReviewVersions rules: atomic
  failurePolicy: enum(Fail,Ignore) pointer
  matchConditions: map(name) merge(name)
  matchPolicy: enum(Equivalent,Exact) pointer
  reinvocationPolicy: enum(IfNeeded,Never) pointer
  sideEffects: enum(None,NoneOnDryRun,Some,Unknown) null
  timeoutSeconds: pointer
MutatingWebhookConfiguration ValidatingWebhookConfiguration . webhooks: map(name) merge(name)
Mutation . patchType: enum(ApplyConfiguration,JSONPatch)
NamedRuleWithOperations: atomic-map
  apiGroups apiVersions operations resourceNames resources: atomic
  scope: enum(*,Cluster,Namespaced) pointer
ParamKind Variable: atomic-map
ParamRef: atomic-map
  parameterNotFoundAction: pointer
RuleWithOperations
  apiGroups apiVersions operations resources: atomic
  scope: enum(*,Cluster,Namespaced) pointer
ServiceReference . path port: pointer
TypeChecking . expressionWarnings: atomic
ValidatingAdmissionPolicy . spec status: always
ValidatingAdmissionPolicyBindingSpec . validationActions: set omitempty
ValidatingAdmissionPolicySpec
  auditAnnotations validations: atomic
  failurePolicy: enum(Fail,Ignore) pointer
  matchConditions variables: map(name) merge(name)
ValidatingAdmissionPolicyStatus . conditions: map(type)
ValidatingWebhook
  admissionReviewVersions rules: atomic
  failurePolicy: enum(Fail,Ignore) pointer
  matchConditions: map(name) merge(name)
  matchPolicy: enum(Equivalent,Exact) pointer
  sideEffects: enum(None,NoneOnDryRun,Some,Unknown) null
  timeoutSeconds: pointer
Validation . reason: pointer
WebhookClientConfig . url: pointer
"#;
