//! Facts about the fields of workloads, autoscalers, leases and events, in the notation of `schema::facts`.
//!
//! Corresponds to the struct tags and marker comments of the Go types.

pub(super) const FACTS: &str = r#"
package io.k8s.api.apps.v1
ControllerRevision . data: always
DaemonSet Deployment ReplicaSet StatefulSet . spec status: always
DaemonSetCondition ReplicaSetCondition StatefulSetCondition . lastTransitionTime: always
DaemonSetSpec
  revisionHistoryLimit: pointer
  selector: null
  updateStrategy: always
DaemonSetStatus
  collisionCount: pointer
  conditions: map(type) merge(type)
DaemonSetUpdateStrategy StatefulSetUpdateStrategy . type: enum(OnDelete,RollingUpdate)
DeploymentCondition . lastTransitionTime lastUpdateTime: always
DeploymentSpec
  progressDeadlineSeconds replicas revisionHistoryLimit: pointer
  selector: null
  strategy: retainKeys always
DeploymentStatus
  collisionCount terminatingReplicas: pointer
  conditions: map(type) merge(type)
DeploymentStrategy . type: enum(Recreate,RollingUpdate)
ReplicaSetSpec
  replicas: pointer
  selector: null
  template: always
ReplicaSetStatus
  conditions: map(type) merge(type)
  terminatingReplicas: pointer
RollingUpdateStatefulSetStrategy . partition: pointer
StatefulSetOrdinals . start: always
StatefulSetSpec
  podManagementPolicy: enum(OrderedReady,Parallel)
  replicas revisionHistoryLimit: pointer
  selector: null
  serviceName updateStrategy: always
  volumeClaimTemplates: atomic
StatefulSetStatus
  availableReplicas: always
  collisionCount: pointer
  conditions: map(type) merge(type)
package io.k8s.api.autoscaling.v1
CrossVersionObjectReference: atomic-map
HorizontalPodAutoscaler . status: always
HorizontalPodAutoscalerSpec . minReplicas targetCPUUtilizationPercentage: pointer
HorizontalPodAutoscalerStatus . currentCPUUtilizationPercentage observedGeneration: pointer
Scale . spec status: always
ScaleSpec . replicas: default(0)
package io.k8s.api.autoscaling.v2
HPAScalingRules
  policies: atomic
  selectPolicy stabilizationWindowSeconds tolerance: pointer
HorizontalPodAutoscaler . status: always
HorizontalPodAutoscalerCondition . lastTransitionTime: always
HorizontalPodAutoscalerSpec
  metrics: atomic
  minReplicas: pointer
HorizontalPodAutoscalerStatus
  conditions: map(type) merge(type)
  currentMetrics: atomic always
  observedGeneration: pointer
MetricTarget MetricValueStatus . averageUtilization: pointer
package io.k8s.api.batch.v1
CronJob . status: always
CronJobSpec
  concurrencyPolicy: enum(Allow,Forbid,Replace)
  failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit suspend timeZone: pointer
CronJobStatus . active: atomic
Job . spec status: always
JobCondition . lastProbeTime lastTransitionTime: always
JobSpec
  activeDeadlineSeconds backoffLimit backoffLimitPerIndex completions managedBy manualSelector maxFailedIndexes parallelism suspend ttlSecondsAfterFinished: pointer
  completionMode: enum(Indexed,NonIndexed) pointer
  podReplacementPolicy: enum(Failed,TerminatingOrFailed) pointer
JobStatus
  conditions: atomic merge(type)
  failedIndexes ready terminating: pointer
JobTemplateSpec . spec: always
PodFailurePolicy SuccessPolicy . rules: atomic
PodFailurePolicyOnExitCodesRequirement
  containerName: pointer
  operator: enum(In,NotIn)
  values: set
PodFailurePolicyRule
  action: enum(Count,FailIndex,FailJob,Ignore)
  onPodConditions: atomic
SuccessPolicyRule . succeededCount succeededIndexes: pointer
UncountedTerminatedPods . failed succeeded: set
package io.k8s.api.policy.v1
PodDisruptionBudget . spec status: always
PodDisruptionBudgetSpec
  selector: replace
  unhealthyPodEvictionPolicy: enum(AlwaysAllow,IfHealthyBudget) pointer
PodDisruptionBudgetStatus
  conditions: map(type) merge(type)
  currentHealthy desiredHealthy disruptionsAllowed expectedPods: always
package io.k8s.api.scheduling.v1
PriorityClass
  preemptionPolicy: enum(Never,PreemptLowerPriority) pointer
  value: always
package io.k8s.api.scheduling.v1alpha2
PodGroup . status: always
PodGroupResourceClaim . resourceClaimName resourceClaimTemplateName: pointer
PodGroupResourceClaimStatus . resourceClaimName: pointer
PodGroupSchedulingConstraints . topology: atomic
PodGroupSpec PodGroupTemplate
  disruptionMode: enum(Pod,PodGroup) pointer
  priority: pointer
  resourceClaims: map(name) merge(name) retainKeys
PodGroupStatus
  conditions: map(type) merge(type)
  resourceClaimStatuses: map(name) merge(name) retainKeys
WorkloadSpec . podGroupTemplates: map(name) null
package io.k8s.api.node.v1
Scheduling
  nodeSelector: atomic-map
  tolerations: atomic
package io.k8s.api.coordination.v1
Lease . spec: always
LeaseSpec . holderIdentity leaseDurationSeconds leaseTransitions preferredHolder strategy: pointer
package io.k8s.api.events.v1
Event . deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource eventTime regarding: always
"#;
