package main

import (
	"context"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/version"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// figures are what a run of --bench measured.
type figures struct {
	Kubernetes string `json:"kubernetes"`
	Nodes      int    `json:"nodes"`
	// Pods are those that were tried: fewer than are pending where Finished is false.
	Finished      bool    `json:"finished"`
	Pods          int     `json:"pods"`
	Scheduled     int     `json:"scheduled"`
	Unschedulable int     `json:"unschedulable"`
	Failed        int     `json:"failed"`
	Seconds       float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	SetupSeconds  float64 `json:"setupSeconds"`
	// CPUSeconds are those of this process meanwhile, on all processors: a measure that a busy machine does not change. Those
	// of a real control plane are not known.
	CPUSeconds float64 `json:"cpuSeconds,omitempty"`
	// PercentageOfNodesToScore and Parallelism are not known of a real control plane.
	PercentageOfNodesToScore int32 `json:"percentageOfNodesToScore,omitempty"`
	Parallelism              int32 `json:"parallelism,omitempty"`
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
	cpuBefore := cpuTime()
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
	measured.CPUSeconds = (cpuTime() - cpuBefore).Seconds()
	measured.PodsPerSecond = float64(measured.Pods) / measured.Seconds
	return measured, nil
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
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

// benchThrough measures a real control plane, from the creation of the first pending pod to the binding or refusal of the
// last, as a client sees them. What it creates stays.
func benchThrough(plane *controlPlane, cluster *cluster, limit time.Duration) (*figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := time.Now()
	if err := plane.prepare(ctx, cluster, settling[0]); err != nil {
		return nil, err
	}
	queue := queueOf(cluster)
	measured := &figures{Kubernetes: version.Get().GitVersion, Pods: len(queue)}
	for _, object := range cluster.objects {
		if _, ok := object.(*v1.Node); ok {
			measured.Nodes++
		}
	}
	// An informer, because a server ends the watch of a client that falls behind.
	seen := make(chan *v1.Pod, 1024)
	informer := informers.NewSharedInformerFactory(plane.typed, 0).Core().V1().Pods().Informer()
	tell := func(object any) {
		if pod, ok := object.(*v1.Pod); ok {
			select {
			case seen <- pod:
			case <-ctx.Done():
			}
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) },
	}); err != nil {
		return nil, err
	}
	go informer.RunWithContext(ctx)
	waiting := make(map[string]bool, len(queue))
	pods := make([]runtime.Object, 0, len(queue))
	for _, each := range queue {
		waiting[nameOf(each.pod)] = true
		pods = append(pods, each.pod)
	}
	measured.SetupSeconds = time.Since(begin).Seconds()

	begin = time.Now()
	created := make(chan error, 1)
	go func() { created <- plane.createAll(ctx, pods) }()
	expired := make(<-chan time.Time)
	if limit > 0 {
		expired = time.After(limit)
	}
	refused := map[string]bool{}
	for len(waiting) > len(refused) {
		select {
		case err := <-created:
			if err != nil {
				return nil, err
			}
		case <-expired:
			return measured.after(begin, len(waiting), len(refused)), nil
		case pod := <-seen:
			if !waiting[nameOf(pod)] {
				continue
			}
			if pod.Spec.NodeName != "" {
				delete(waiting, nameOf(pod))
				delete(refused, nameOf(pod))
			} else if refusal(pod) != "" {
				refused[nameOf(pod)] = true
			}
		}
	}
	return measured.after(begin, len(waiting), len(refused)), nil
}

// after completes the figures, of which so many pods wait, some of them with a refusal.
func (f *figures) after(begin time.Time, waiting, refused int) *figures {
	f.Seconds = time.Since(begin).Seconds()
	f.Scheduled, f.Unschedulable, f.Finished = f.Pods-waiting, refused, waiting == refused
	f.Pods = f.Scheduled + refused
	f.PodsPerSecond = float64(f.Pods) / f.Seconds
	return f
}
