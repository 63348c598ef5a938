package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// figures are what a run of --bench measured.
type figures struct {
	Kubernetes string `json:"kubernetes"`
	Nodes      int    `json:"nodes"`
	// Pods are those that were tried: fewer than are pending where Finished is false.
	Finished                 bool    `json:"finished"`
	Pods                     int     `json:"pods"`
	Scheduled                int     `json:"scheduled"`
	Unschedulable            int     `json:"unschedulable"`
	Failed                   int     `json:"failed"`
	Seconds                  float64 `json:"seconds"`
	PodsPerSecond            float64 `json:"podsPerSecond"`
	SetupSeconds             float64 `json:"setupSeconds"`
	PercentageOfNodesToScore int32   `json:"percentageOfNodesToScore"`
	Parallelism              int32   `json:"parallelism"`
}

// bench measures scheduling cycles as kube-scheduler's schedulingCycle has them, from the queue to the permission to bind:
// pop, filter, score, assume, reserve, permit. Binding, which waits for a server, and preemption are left out.
// After limit no further pod is tried, where there is one.
func bench(cluster *cluster, parallelism, percentage int32, limit time.Duration) (*figures, error) {
	begin := time.Now()
	scheduler, err := newSchedulerOf(cluster, parallelism, percentage)
	if err != nil {
		return nil, err
	}
	defer scheduler.close()
	ctx := context.Background()
	measured := &figures{
		Kubernetes: version.Get().GitVersion, Nodes: scheduler.Cache.NodeCount(), Finished: true,
		PercentageOfNodesToScore: percentage, Parallelism: parallelism, SetupSeconds: time.Since(begin).Seconds(),
	}
	begin = time.Now()
	for range len(scheduler.SchedulingQueue.PodsInActiveQ()) {
		if limit > 0 && time.Since(begin) > limit {
			measured.Finished = false
			break
		}
		measured.Pods++
		queued, err := scheduler.NextPod(scheduler.logger)
		if err != nil {
			return nil, err
		}
		bound, err := scheduler.cycle(ctx, queued)
		switch {
		case err != nil:
			measured.Failed++
		case bound:
			measured.Scheduled++
		default:
			measured.Unschedulable++
		}
		scheduler.SchedulingQueue.Done(queued.Pod.UID)
	}
	measured.Seconds = time.Since(begin).Seconds()
	measured.PodsPerSecond = float64(measured.Pods) / measured.Seconds
	return measured, nil
}

// cycle tells whether the pod was given a node.
func (s *scheduler) cycle(ctx context.Context, queued *framework.QueuedPodInfo) (bool, error) {
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	result, err := s.SchedulePod(ctx, s.framework, state, queued.Pod)
	if _, unfit := err.(*framework.FitError); unfit {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var assumed *v1.Pod = queued.DeepCopy().Pod
	assumed.Spec.NodeName = result.SuggestedHost
	if err := s.Cache.AssumePod(s.logger, assumed); err != nil {
		return false, err
	}
	s.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	if status := s.framework.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		s.framework.RunReservePluginsUnreserve(ctx, state, assumed, result.SuggestedHost)
		return false, s.Cache.ForgetPod(s.logger, assumed)
	}
	if status := s.framework.RunPermitPlugins(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		return false, status.AsError()
	}
	return true, nil
}
