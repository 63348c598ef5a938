package main

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decision is what somebody else decided for a pod: to bind it to a node, or to evict victims and nominate it, or, with
// neither, to leave it pending. A pod that is tried twice has two, in that order.
type decision struct {
	Pod       string   `json:"pod"`
	Node      string   `json:"node,omitempty"`
	Nominated string   `json:"nominatedNode,omitempty"`
	Victims   []string `json:"victims,omitempty"`
}

// pending is a pod in the queue.
type pending struct {
	pod     *v1.Pod
	order   int
	attempt int
}

// queueOf returns the pods that wait for this scheduler, by priority and then in the order of the input: the order of
// PrioritySort when the pods were created in that order.
func queueOf(cluster *cluster) []pending {
	var queue []pending
	for order, object := range cluster.objects {
		pod, ok := object.(*v1.Pod)
		if !ok || pod.Spec.NodeName != "" || terminal(pod) || pod.DeletionTimestamp != nil || pod.Spec.SchedulerName != v1.DefaultSchedulerName {
			continue
		}
		queue = append(queue, pending{pod: pod, order: order, attempt: 1})
	}
	sort.SliceStable(queue, func(i, j int) bool { return before(queue[i], queue[j]) })
	return queue
}

func before(a, b pending) bool {
	if pa, pb := corev1helpers.PodPriority(a.pod), corev1helpers.PodPriority(b.pod); pa != pb {
		return pa > pb
	}
	return a.order < b.order
}

// independent evaluates every pending pod alone, in the cluster as it was given.
func independent(cluster *cluster, emit func(*evaluation) error) error {
	scheduler, err := newScheduler(cluster)
	if err != nil {
		return err
	}
	defer scheduler.close()
	for _, waiting := range queueOf(cluster) {
		result, err := scheduler.evaluate(context.Background(), waiting.pod)
		if err != nil {
			return fmt.Errorf("Pod %s: %w", nameOf(waiting.pod), err)
		}
		result.Attempt = waiting.attempt
		if err := emit(result); err != nil {
			return err
		}
	}
	return nil
}

// commit evaluates the queue in order and carries each choice out before the next: a pod is bound, or its victims go, and
// it waits for its second attempt behind the pods of its priority while the room is held for it. Decisions to follow are
// carried out instead, for the pods that have one.
func commit(cluster *cluster, follow []decision, emit func(*evaluation) error) error {
	decided := map[string][]decision{}
	for _, decision := range follow {
		decided[decision.Pod] = append(decided[decision.Pod], decision)
	}
	decide := func(result *evaluation, _ *v1.Pod, _ *metav1.Time) (*decision, error) {
		if len(decided[result.Pod]) == 0 {
			return nil, nil
		}
		first := decided[result.Pod][0]
		decided[result.Pod] = decided[result.Pod][1:]
		return &first, nil
	}
	if err := commitBy(cluster, true, decide, emit); err != nil {
		return err
	}
	for _, name := range sortedKeys(decided) {
		if len(decided[name]) > 0 {
			return fmt.Errorf("a decision to follow is left over: no attempt of a pending pod %q", name)
		}
	}
	return nil
}

// decider decides on a pod that was evaluated and would start at the given time, or leaves it to the evaluation.
type decider func(*evaluation, *v1.Pod, *metav1.Time) (*decision, error)

// Where budgets are charged, an eviction counts against them at once, as through the API; else they stay as they are, as
// where no controller looks after them.
func commitBy(cluster *cluster, chargesBudgets bool, decide decider, emit func(*evaluation) error) error {
	scheduler, err := newScheduler(cluster)
	if err != nil {
		return err
	}
	defer scheduler.close()
	scheduler.chargesBudgets = chargesBudgets

	ctx := context.Background()
	queue := queueOf(cluster)
	next := len(cluster.objects)
	for len(queue) > 0 {
		waiting := queue[0]
		queue = queue[1:]
		// A later version where it has been nominated meanwhile; none where it was evicted.
		pod, known, err := scheduler.current(waiting.pod)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		result, err := scheduler.evaluate(ctx, pod)
		if err != nil {
			return fmt.Errorf("Pod %s: %w", nameOf(pod), err)
		}
		result.Attempt = waiting.attempt
		choice := decision{Pod: result.Pod}
		if result.Followed, err = decide(result, pod, scheduler.nextStart()); err != nil {
			return err
		}
		switch {
		case result.Followed != nil:
			choice = *result.Followed
		case result.Chosen != nil:
			choice.Node = *result.Chosen
		case result.Preemption != nil:
			choice.Nominated, choice.Victims = result.Preemption.NominatedNode, result.Preemption.Victims
		}
		if err := scheduler.carryOut(ctx, result, pod, choice); err != nil {
			result.Error = err.Error()
		}
		if err := emit(result); err != nil {
			return err
		}
		if result.Error == "" && choice.Node == "" && len(choice.Victims) > 0 {
			again := pending{pod: pod, order: next, attempt: waiting.attempt + 1}
			next++
			place, _ := slices.BinarySearchFunc(queue, again, func(a, b pending) int {
				if before(a, b) {
					return -1
				}
				return 1
			})
			queue = slices.Insert(queue, place, again)
		}
	}
	return nil
}

func sortedKeys[V any](from map[string]V) []string {
	keys := make([]string, 0, len(from))
	for key := range from {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// current returns the pod as it is now, unless it is gone.
func (s *scheduler) current(pod *v1.Pod) (*v1.Pod, bool, error) {
	object, known, err := s.stores.byKind["Pod"].Get(pod)
	if err != nil || !known {
		return nil, false, err
	}
	return object.(*v1.Pod), true, nil
}

// carryOut evicts, nominates and binds.
func (s *scheduler) carryOut(ctx context.Context, result *evaluation, pod *v1.Pod, choice decision) error {
	for _, name := range choice.Victims {
		object, known, err := s.stores.byKind["Pod"].GetByKey(name)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("victim %s: there is no such pod", name)
		}
		victim := object.(*v1.Pod)
		if err := s.stores.byKind["Pod"].remove(victim); err != nil {
			return err
		}
		if err := s.chargeBudgets(victim); err != nil {
			return err
		}
	}
	if choice.Node != "" {
		return s.bind(ctx, result, pod, choice.Node)
	}
	if choice.Nominated != "" {
		return s.nominate(pod, choice.Nominated)
	}
	// A preemption that finds nobody to evict gives up the node that was held; one that is not tried keeps it.
	if pod.Status.NominatedNodeName != "" && len(result.Nodes) > 0 && !result.keepsNominated {
		return s.setNominated(pod, "")
	}
	return nil
}

// chargeBudgets counts an eviction against the budgets that protect the pod.
func (s *scheduler) chargeBudgets(victim *v1.Pod) error {
	if !s.chargesBudgets {
		return nil
	}
	for _, object := range s.stores.byKind["PodDisruptionBudget"].List() {
		budget := object.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || budget.Namespace != victim.Namespace || selector.Empty() || !selector.Matches(labels.Set(victim.Labels)) {
			continue
		}
		if _, counted := budget.Status.DisruptedPods[victim.Name]; counted || budget.Status.DisruptionsAllowed <= 0 {
			continue
		}
		charged := budget.DeepCopy()
		charged.Status.DisruptionsAllowed--
		if err := s.stores.byKind["PodDisruptionBudget"].put(charged); err != nil {
			return err
		}
	}
	return nil
}

// nominate holds a node for the pod against pods of the same and of lower priority, and no longer for the latter.
func (s *scheduler) nominate(pod *v1.Pod, node string) error {
	for _, other := range s.framework.NominatedPodsForNode(node) {
		if corev1helpers.PodPriority(other.GetPod()) < corev1helpers.PodPriority(pod) {
			if err := s.setNominated(other.GetPod(), ""); err != nil {
				return err
			}
		}
	}
	return s.setNominated(pod, node)
}

func (s *scheduler) setNominated(pod *v1.Pod, node string) error {
	nominated := pod.DeepCopy()
	nominated.Status.NominatedNodeName = node
	nominated.ResourceVersion += "+" // an update of the same version would pass unseen
	return s.stores.byKind["Pod"].put(nominated)
}

// bind assumes the pod on the node as a scheduling cycle does, and confirms that as the watch would. Volumes stay assumed:
// a claim that waited for its first consumer is matched with its volume or with the node, but nothing provisions it.
func (s *scheduler) bind(ctx context.Context, result *evaluation, pod *v1.Pod, node string) error {
	if _, err := s.snapshot.Get(node); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	queued, err := framework.NewPodInfo(pod.DeepCopy())
	if err != nil {
		return err
	}
	assumed := queued.Pod
	assumed.Spec.NodeName = node
	if err := s.Cache.AssumePod(s.logger, assumed); err != nil {
		return err
	}
	s.SchedulingQueue.DeleteNominatedPodIfExists(assumed)
	// A node that a filter refused has no decision on volumes to reserve; the one who is followed answers for it.
	if refused := slices.ContainsFunc(result.Nodes, func(v verdict) bool { return v.Node == node && v.Filter != nil }); !refused {
		if status := s.framework.RunReservePluginsReserve(ctx, result.state, assumed, node); !status.IsSuccess() {
			s.framework.RunReservePluginsUnreserve(ctx, result.state, assumed, node)
			if err := s.Cache.ForgetPod(s.logger, assumed); err != nil {
				return err
			}
			return status.AsError()
		}
	}
	bound := assumed.DeepCopy()
	bound.Status.StartTime = s.nextStart()
	s.bound++
	bound.ResourceVersion += "+"
	return s.stores.byKind["Pod"].put(bound)
}

// nextStart is when the pod that is bound next starts.
func (s *scheduler) nextStart() *metav1.Time {
	return &metav1.Time{Time: startOfTime.AddDate(100, 0, 0).Add(time.Duration(s.bound) * time.Second)}
}
