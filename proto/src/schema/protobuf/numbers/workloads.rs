//! Field numbers of workloads, autoscalers, leases and events, in the notation of `schema::protobuf::numbers`.
//!
//! Corresponds to the generated.proto files of these packages.

pub(super) const NUMBERS: &str = r#"
package io.k8s.api.apps.v1
ControllerRevision: metadata data revision
DaemonSet Deployment ReplicaSet StatefulSet: metadata spec status
DaemonSetCondition ReplicaSetCondition StatefulSetCondition: type status lastTransitionTime reason message
DaemonSetSpec: selector template updateStrategy minReadySeconds _ revisionHistoryLimit
DaemonSetStatus: currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration
  updatedNumberScheduled numberAvailable numberUnavailable collisionCount conditions
DaemonSetUpdateStrategy DeploymentStrategy StatefulSetUpdateStrategy: type rollingUpdate
DeploymentCondition: type status _ reason message lastUpdateTime lastTransitionTime
DeploymentSpec: replicas selector template strategy minReadySeconds revisionHistoryLimit paused _
  progressDeadlineSeconds
DeploymentStatus: observedGeneration replicas updatedReplicas availableReplicas unavailableReplicas conditions
  readyReplicas collisionCount terminatingReplicas
ReplicaSetSpec: replicas selector template minReadySeconds
ReplicaSetStatus: replicas fullyLabeledReplicas observedGeneration readyReplicas availableReplicas conditions
  terminatingReplicas
RollingUpdateDaemonSet RollingUpdateDeployment: maxUnavailable maxSurge
RollingUpdateStatefulSetStrategy: partition maxUnavailable
StatefulSetOrdinals: start
StatefulSetPersistentVolumeClaimRetentionPolicy: whenDeleted whenScaled
StatefulSetSpec: replicas selector template volumeClaimTemplates serviceName podManagementPolicy updateStrategy
  revisionHistoryLimit minReadySeconds persistentVolumeClaimRetentionPolicy ordinals
StatefulSetStatus: observedGeneration replicas readyReplicas currentReplicas updatedReplicas currentRevision
  updateRevision _ collisionCount conditions availableReplicas
package io.k8s.api.autoscaling.v1
CrossVersionObjectReference: kind name apiVersion
HorizontalPodAutoscaler Scale: metadata spec status
HorizontalPodAutoscalerSpec: scaleTargetRef minReplicas maxReplicas targetCPUUtilizationPercentage
HorizontalPodAutoscalerStatus: observedGeneration lastScaleTime currentReplicas desiredReplicas
  currentCPUUtilizationPercentage
ScaleSpec: replicas
ScaleStatus: replicas selector
package io.k8s.api.autoscaling.v2
ContainerResourceMetricSource: name target container
ContainerResourceMetricStatus: name current container
CrossVersionObjectReference: kind name apiVersion
ExternalMetricSource PodsMetricSource: metric target
ExternalMetricStatus PodsMetricStatus: metric current
HPAScalingPolicy: type value periodSeconds
HPAScalingRules: selectPolicy policies stabilizationWindowSeconds tolerance
HorizontalPodAutoscaler: metadata spec status
HorizontalPodAutoscalerBehavior: scaleUp scaleDown
HorizontalPodAutoscalerCondition: type status lastTransitionTime reason message
HorizontalPodAutoscalerSpec: scaleTargetRef minReplicas maxReplicas metrics behavior
HorizontalPodAutoscalerStatus: observedGeneration lastScaleTime currentReplicas desiredReplicas currentMetrics
  conditions
MetricIdentifier: name selector
MetricSpec MetricStatus: type object pods resource external _ containerResource
MetricTarget: type value averageValue averageUtilization
MetricValueStatus: value averageValue averageUtilization
ObjectMetricSource: describedObject target metric
ObjectMetricStatus: metric current describedObject
ResourceMetricSource: name target
ResourceMetricStatus: name current
package io.k8s.api.batch.v1
CronJob Job: metadata spec status
CronJobSpec: schedule startingDeadlineSeconds concurrencyPolicy suspend jobTemplate successfulJobsHistoryLimit
  failedJobsHistoryLimit timeZone
CronJobStatus: active _ _ lastScheduleTime lastSuccessfulTime
JobCondition: type status lastProbeTime lastTransitionTime reason message
JobSpec: parallelism completions activeDeadlineSeconds selector manualSelector template backoffLimit
  ttlSecondsAfterFinished completionMode suspend podFailurePolicy backoffLimitPerIndex maxFailedIndexes
  podReplacementPolicy managedBy successPolicy
JobStatus: conditions startTime completionTime active succeeded failed completedIndexes uncountedTerminatedPods ready
  failedIndexes terminating
JobTemplateSpec: metadata spec
PodFailurePolicy SuccessPolicy: rules
PodFailurePolicyOnExitCodesRequirement: containerName operator values
PodFailurePolicyOnPodConditionsPattern: type status
PodFailurePolicyRule: action onExitCodes onPodConditions
SuccessPolicyRule: succeededIndexes succeededCount
UncountedTerminatedPods: succeeded failed
package io.k8s.api.coordination.v1
Lease: metadata spec
LeaseSpec: holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy preferredHolder
package io.k8s.api.events.v1
Event: metadata eventTime series reportingController reportingInstance action reason regarding related note type
  deprecatedSource deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedCount
EventSeries: count lastObservedTime
package io.k8s.api.node.v1
Overhead: podFixed
RuntimeClass: metadata handler overhead scheduling
Scheduling: nodeSelector tolerations
package io.k8s.api.policy.v1
Eviction: metadata deleteOptions
PodDisruptionBudget: metadata spec status
PodDisruptionBudgetSpec: minAvailable selector maxUnavailable unhealthyPodEvictionPolicy
PodDisruptionBudgetStatus: observedGeneration disruptedPods disruptionsAllowed currentHealthy desiredHealthy
  expectedPods conditions
package io.k8s.api.scheduling.v1
PriorityClass: metadata value globalDefault description preemptionPolicy
package io.k8s.api.scheduling.v1alpha2
GangSchedulingPolicy: minCount
PodGroup: metadata spec status
PodGroupResourceClaim: name resourceClaimName resourceClaimTemplateName
PodGroupResourceClaimStatus: name resourceClaimName
PodGroupSchedulingConstraints: topology
PodGroupSchedulingPolicy: basic gang
PodGroupSpec: podGroupTemplateRef schedulingPolicy schedulingConstraints resourceClaims disruptionMode priorityClassName
  priority
PodGroupStatus: conditions resourceClaimStatuses
PodGroupTemplate: name schedulingPolicy schedulingConstraints resourceClaims disruptionMode priorityClassName priority
PodGroupTemplateReference: workload
TopologyConstraint: key
TypedLocalObjectReference: apiGroup kind name
Workload: metadata spec
WorkloadPodGroupTemplateReference: workloadName podGroupTemplateName
WorkloadSpec: controllerRef podGroupTemplates
"#;
