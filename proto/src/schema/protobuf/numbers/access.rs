//! Field numbers of identities, roles, flow control and admission, in the notation of `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.admissionregistration.v1
ApplyConfiguration: expression
AuditAnnotation: key valueExpression
ExpressionWarning: _ fieldRef warning
JSONPatch: expression
MatchCondition: name expression
MatchResources: namespaceSelector objectSelector resourceRules excludeResourceRules _ _ matchPolicy
MutatingAdmissionPolicy: metadata spec
MutatingAdmissionPolicyBinding: metadata spec
MutatingAdmissionPolicyBindingSpec: policyName paramRef matchResources
MutatingAdmissionPolicySpec: paramKind matchConstraints variables mutations failurePolicy matchConditions
  reinvocationPolicy
MutatingWebhook: name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds
  admissionReviewVersions matchPolicy reinvocationPolicy objectSelector matchConditions
MutatingWebhookConfiguration: metadata webhooks
Mutation: _ patchType applyConfiguration jsonPatch
NamedRuleWithOperations: resourceNames +RuleWithOperations
ParamKind: apiVersion kind
ParamRef: name namespace selector parameterNotFoundAction
Rule: apiGroups apiVersions resources scope
RuleWithOperations: operations +Rule
ServiceReference: namespace name path port
TypeChecking: expressionWarnings
ValidatingAdmissionPolicy: metadata spec status
ValidatingAdmissionPolicyBinding: metadata spec
ValidatingAdmissionPolicyBindingSpec: policyName paramRef matchResources validationActions
ValidatingAdmissionPolicySpec: paramKind matchConstraints validations failurePolicy auditAnnotations matchConditions
  variables
ValidatingAdmissionPolicyStatus: observedGeneration typeChecking conditions
ValidatingWebhook: name clientConfig rules failurePolicy namespaceSelector sideEffects timeoutSeconds
  admissionReviewVersions matchPolicy objectSelector matchConditions
ValidatingWebhookConfiguration: metadata webhooks
Validation: expression message reason messageExpression
Variable: name expression
WebhookClientConfig: service caBundle url
package io.k8s.api.authentication.v1
BoundObjectReference: kind apiVersion name uid
SelfSubjectReview: metadata status
SelfSubjectReviewStatus: userInfo
TokenRequest: metadata spec status
TokenRequestSpec: audiences _ boundObjectRef expirationSeconds
TokenRequestStatus: token expirationTimestamp
TokenReview: metadata spec status
TokenReviewSpec: token audiences
TokenReviewStatus: authenticated user error audiences
UserInfo: username uid groups extra
package io.k8s.api.authorization.v1
FieldSelectorAttributes: rawSelector requirements
LabelSelectorAttributes: rawSelector requirements
LocalSubjectAccessReview: metadata spec status
NonResourceAttributes: path verb
NonResourceRule: verbs nonResourceURLs
ResourceAttributes: namespace verb group version resource subresource name fieldSelector labelSelector
ResourceRule: verbs apiGroups resources resourceNames
SelfSubjectAccessReview: metadata spec status
SelfSubjectAccessReviewSpec: resourceAttributes nonResourceAttributes
SelfSubjectRulesReview: metadata spec status
SelfSubjectRulesReviewSpec: namespace
SubjectAccessReview: metadata spec status
SubjectAccessReviewSpec: resourceAttributes nonResourceAttributes user groups extra uid
SubjectAccessReviewStatus: allowed reason evaluationError denied
SubjectRulesReviewStatus: resourceRules nonResourceRules incomplete evaluationError
package io.k8s.api.certificates.v1
CertificateSigningRequest: metadata spec status
CertificateSigningRequestCondition: type reason message lastUpdateTime lastTransitionTime status
CertificateSigningRequestSpec: request username uid groups usages extra signerName expirationSeconds
CertificateSigningRequestStatus: conditions certificate
package io.k8s.api.flowcontrol.v1
ExemptPriorityLevelConfiguration: nominalConcurrencyShares lendablePercent
FlowDistinguisherMethod: type
FlowSchema: metadata spec status
FlowSchemaCondition: type status lastTransitionTime reason message
FlowSchemaSpec: priorityLevelConfiguration matchingPrecedence distinguisherMethod rules
FlowSchemaStatus: conditions
GroupSubject: name
LimitResponse: type queuing
LimitedPriorityLevelConfiguration: nominalConcurrencyShares limitResponse lendablePercent borrowingLimitPercent
NonResourcePolicyRule: verbs 6=nonResourceURLs
PolicyRulesWithSubjects: subjects resourceRules nonResourceRules
PriorityLevelConfiguration: metadata spec status
PriorityLevelConfigurationCondition: type status lastTransitionTime reason message
PriorityLevelConfigurationReference: name
PriorityLevelConfigurationSpec: type limited exempt
PriorityLevelConfigurationStatus: conditions
QueuingConfiguration: queues handSize queueLengthLimit
ResourcePolicyRule: verbs apiGroups resources clusterScope namespaces
ServiceAccountSubject: namespace name
Subject: kind user group serviceAccount
UserSubject: name
package io.k8s.api.rbac.v1
AggregationRule: clusterRoleSelectors
ClusterRole: metadata rules aggregationRule
ClusterRoleBinding: metadata subjects roleRef
PolicyRule: verbs apiGroups resources resourceNames nonResourceURLs
Role: metadata rules
RoleBinding: metadata subjects roleRef
RoleRef: apiGroup kind name
Subject: kind apiGroup name namespace
"#;
