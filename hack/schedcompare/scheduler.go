package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// scheduler is kube-scheduler with its default profile, over objects that are put into it.
type scheduler struct {
	*kubescheduler.Scheduler
	stores     *stores
	framework  framework.Framework
	snapshot   *internalcache.Snapshot
	preemption *defaultpreemption.DefaultPreemption
	logger     klog.Logger
	stop       context.CancelFunc

	// chargesBudgets tells whether evictions count against PodDisruptionBudgets.
	chargesBudgets bool
	// bound counts the pods that were bound here, which started later than all others, in that order.
	bound int
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (s silent) WithLogger(klog.Logger) events.EventRecorderLogger                           { return s }

// newScheduler returns a scheduler that knows the objects of the cluster and scores all nodes. Close it when it is no
// longer used.
func newScheduler(cluster *cluster) (*scheduler, error) {
	return newSchedulerOf(cluster, 1, 100)
}

func newSchedulerOf(cluster *cluster, parallelism, percentage int32) (*scheduler, error) {
	ctx, stop := context.WithCancel(context.Background())
	created := &scheduler{stores: newStores(), logger: klog.Background(), stop: stop}
	var err error
	created.Scheduler, err = kubescheduler.New(ctx, noClient{}, created.stores.factory, nil,
		func(string) events.EventRecorder { return silent{} },
		kubescheduler.WithPercentageOfNodesToScore(&percentage),
		kubescheduler.WithParallelism(parallelism),
	)
	if err != nil {
		stop()
		return nil, err
	}
	created.framework = created.Profiles[v1.DefaultSchedulerName]
	snapshot, ok := created.framework.SnapshotSharedLister().(*internalcache.Snapshot)
	if !ok {
		stop()
		return nil, fmt.Errorf("the framework's snapshot is a %T", created.framework.SnapshotSharedLister())
	}
	created.snapshot = snapshot
	// As in the default profile, but without its random subset of candidates: all nodes are looked at. Pods of one
	// priority and start are told apart by name, where the plugin takes the order in which they came.
	created.preemption, err = defaultpreemption.New(ctx,
		&config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 100}, created.framework, feature.Features{})
	if err != nil {
		stop()
		return nil, err
	}
	byImportance := created.preemption.MoreImportantPod
	created.preemption.MoreImportantPod = func(a, b *v1.Pod) bool {
		if byImportance(a, b) == byImportance(b, a) {
			return nameOf(a) < nameOf(b)
		}
		return byImportance(a, b)
	}
	for _, object := range cluster.objects {
		if err := created.add(object); err != nil {
			stop()
			return nil, err
		}
	}
	return created, nil
}

func (s *scheduler) close() {
	s.stop()
	s.SchedulingQueue.Close()
	_ = s.framework.Close() // of plugins that hold nothing open here
}

// add puts an object into its store, unless the scheduler would not see it.
func (s *scheduler) add(object runtime.Object) error {
	if pod, ok := object.(*v1.Pod); ok && terminal(pod) {
		return nil
	}
	return s.stores.byKind[object.GetObjectKind().GroupVersionKind().Kind].put(object)
}

// terminal pods are filtered out of the scheduler's watch.
func terminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func (s *scheduler) updateSnapshot() error {
	return s.Cache.UpdateSnapshot(s.logger, s.snapshot)
}
