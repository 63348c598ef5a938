package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// observed is what a kube-scheduler of a real control plane did with a pod.
type observed struct {
	Node      string   `json:"node,omitempty"`
	Nominated string   `json:"nominatedNode,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	Message   string   `json:"message,omitempty"`
	// Disagrees is how that differs from what this program says.
	Disagrees string `json:"disagrees,omitempty"`
}

const (
	canary = "schedcompare-canary"
	// forgotten is a preemptor that is not bound so long after its last victim's end: it is not tried again for minutes.
	forgotten = 10 * time.Second
)

// settling is how long the scheduler is given to see what was created, at each try: nothing tells when it has seen objects
// other than nodes and pods. Its watches are milliseconds behind, or more on a busy machine.
var settling = []time.Duration{300 * time.Millisecond, 3 * time.Second}

// prepare creates what is there before the first pending pod, and returns when the scheduler has seen it.
func (c *controlPlane) prepare(ctx context.Context, cluster *cluster, pause time.Duration) error {
	// Claims come before the volumes that name them, and namespaces before all.
	rank := map[string]int{"Namespace": -2, "PersistentVolumeClaim": -1}
	objects := slices.Clone(cluster.objects)
	slices.SortStableFunc(objects, func(a, b runtime.Object) int {
		return rank[a.GetObjectKind().GroupVersionKind().Kind] - rank[b.GetObjectKind().GroupVersionKind().Kind]
	})
	others := false
	var nodes, bound []runtime.Object
	for _, object := range objects {
		switch object := object.(type) {
		case *v1.Pod:
			if object.Spec.NodeName != "" {
				bound = append(bound, object)
			}
			continue
		case *v1.Node:
			nodes = append(nodes, object)
			continue
		case *v1.Namespace:
		default:
			others = true
		}
		if err := c.create(ctx, object); err != nil {
			return err
		}
	}
	for _, objects := range [][]runtime.Object{nodes, bound} {
		if err := c.createAll(ctx, objects); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := c.waitForNodes(ctx, len(nodes)); err != nil {
		return err
	}
	if others {
		// As slow as the scheduler was to see the nodes, it may be again.
		time.Sleep(max(pause, 2*time.Since(begin)))
	}
	return nil
}

// waitForNodes returns when the scheduler knows that many nodes, and all pods created before: it says so in the refusal of
// a pod that fits nowhere.
func (c *controlPlane) waitForNodes(ctx context.Context, count int) error {
	want := fmt.Sprintf("0/%d nodes are available", count)
	if count == 0 {
		want = "no nodes available"
	}
	pods := c.typed.CoreV1().Pods(metav1.NamespaceDefault)
	misfit := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: canary}, Spec: v1.PodSpec{
		NodeSelector: map[string]string{canary: ""}, Containers: []v1.Container{{Name: "c", Image: "i"}},
	}}
	said := ""
	for begin := time.Now(); time.Since(begin) < patience; {
		if err := c.removeNow(ctx, metav1.NamespaceDefault+"/"+canary); err != nil {
			return err
		}
		err := insist(func() error {
			_, err := pods.Create(ctx, misfit, metav1.CreateOptions{})
			return err
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		pod, err := c.waitForDecision(ctx, metav1.NamespaceDefault, canary)
		if err := errors.Join(err, c.removeNow(ctx, metav1.NamespaceDefault+"/"+canary)); err != nil {
			return err
		}
		if said = refusal(pod); strings.HasPrefix(said, want) {
			return nil
		}
	}
	return fmt.Errorf("the scheduler does not see %d nodes within %s: %s", count, patience, said)
}

// waitForDecision returns the pod when it is bound or refused.
func (c *controlPlane) waitForDecision(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	var pod *v1.Pod
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		pod, err = c.typed.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if passing(err) {
			return false, nil
		}
		return err == nil && (pod.Spec.NodeName != "" || refusal(pod) != ""), err
	})
	if err != nil {
		return nil, fmt.Errorf("no decision on pod %s/%s: %w", namespace, name, err)
	}
	return pod, nil
}

// refusal is the message of an unschedulable pod.
func refusal(pod *v1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// schedule has the scheduler decide on one pod. A pod that is refused is deleted, so that it is not tried again later.
func (c *controlPlane) schedule(ctx context.Context, pod *v1.Pod) (*observed, error) {
	if err := c.create(ctx, pod); err != nil {
		return nil, err
	}
	decided, err := c.waitForDecision(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return nil, err
	}
	seen := &observed{Message: refusal(decided), Nominated: decided.Status.NominatedNodeName}
	if decided.Spec.NodeName == "" && seen.Nominated == "" {
		return seen, c.deleteNow(ctx, decided)
	}
	begin, quiet, terminating := time.Now(), time.Now(), []string{}
	for decided.Spec.NodeName == "" {
		if len(seen.Victims) > 0 && time.Since(quiet) > forgotten {
			// The end of a victim whose anti-affinity has a namespaceSelector wakes no preemptor, for one. A second attempt,
			// as of a new pod, finds the room.
			slices.Sort(seen.Victims)
			return seen, c.deleteNow(ctx, decided)
		}
		if time.Since(begin) > patience {
			return nil, fmt.Errorf("pod %s: neither bound nor forgotten within %s of its preemption", nameOf(pod), patience)
		}
		// The scheduler evicts asynchronously, and may miss that a victim is gone before it is done with it. So victims take
		// a while to end, as on a node.
		time.Sleep(100 * time.Millisecond)
		before := terminating
		if terminating, err = c.terminating(ctx); err != nil {
			return nil, err
		}
		if !slices.Equal(before, terminating) {
			quiet = time.Now()
		} else if len(terminating) > 0 {
			for _, name := range terminating {
				if err := c.removeNow(ctx, name); err != nil {
					return nil, err
				}
			}
			seen.Victims = append(seen.Victims, terminating...)
			quiet = time.Now()
		}
		err := insist(func() (err error) {
			decided, err = c.typed.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(seen.Victims)
	seen.Node = decided.Spec.NodeName
	return seen, nil
}

// terminating are the names of the pods that are being deleted and wait for their kubelets.
func (c *controlPlane) terminating(ctx context.Context) ([]string, error) {
	var pods *v1.PodList
	err := insist(func() (err error) {
		pods, err = c.typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			names = append(names, nameOf(&pods.Items[i]))
		}
	}
	return names, nil
}

// clear removes everything that prepare and schedule created, and returns when the scheduler has seen that.
func (c *controlPlane) clear(ctx context.Context, cluster *cluster) error {
	var errs []error
	now := int64(0)
	remove := func(object runtime.Object) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			errs = append(errs, err)
			return
		}
		if _, namespace := object.(*v1.Namespace); namespace {
			return // deleting one takes a controller; an empty one does no harm
		}
		resource := c.resourceOf(object, accessor.GetNamespace())
		// Finalizers are for controllers to remove, and there are none.
		err = insist(func() error {
			_, err := resource.Patch(ctx, accessor.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err == nil {
				err = resource.Delete(ctx, accessor.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
			}
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	for _, object := range cluster.objects {
		remove(object)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.waitForNodes(ctx, 0)
}

// through evaluates the queue in order, each pod in the cluster as a real kube-scheduler has left it, and has that decide.
// A cluster that does not end as foretold is made again with more time to settle: what is not so twice is reported.
func through(plane *controlPlane, cluster *cluster, emit func(*evaluation) error) error {
	ctx := context.Background()
	var results []*evaluation
	var err error
	for i, pause := range settling {
		if i > 0 {
			plane.repeated++
		}
		results, err = plane.decideAll(ctx, cluster, pause)
		if err == nil && !slices.ContainsFunc(results, func(result *evaluation) bool { return result.surprises() || result.Error != "" }) {
			break
		}
	}
	for _, result := range results {
		if result.Observed != nil {
			plane.decisions++
		}
		if result.surprises() {
			plane.disagreements++
		}
		if err := emit(result); err != nil {
			return err
		}
	}
	return err
}

// decideAll empties the control plane again, whatever happens.
func (c *controlPlane) decideAll(ctx context.Context, cluster *cluster, pause time.Duration) (results []*evaluation, err error) {
	defer func() { err = errors.Join(err, c.clear(ctx, cluster)) }()
	if err := c.prepare(ctx, cluster, pause); err != nil {
		return nil, err
	}
	decide := func(result *evaluation, pod *v1.Pod, start *metav1.Time) (*decision, error) {
		seen, err := c.schedule(ctx, pod)
		if err != nil {
			return nil, err
		}
		result.Observed = seen
		seen.Disagrees = result.disagreement(seen)
		if seen.Node != "" {
			if err := c.setStarted(ctx, pod, start); err != nil {
				return nil, err
			}
		}
		return &decision{Pod: result.Pod, Node: seen.Node, Victims: seen.Victims}, nil
	}
	err = commitBy(cluster, false, decide, func(result *evaluation) error {
		results = append(results, result)
		return nil
	})
	return results, err
}

// surprises tells whether a real kube-scheduler did something else than was foretold.
func (e *evaluation) surprises() bool {
	return e.Observed != nil && e.Observed.Disagrees != ""
}

// disagreement is empty where what was seen is one of the things that this program says may happen.
func (e *evaluation) disagreement(seen *observed) string {
	if e.Gated == "" && seen.Message != e.Message && (seen.Message != "" || e.Chosen == nil) {
		return fmt.Sprintf("message: expected %q", e.Message)
	}
	switch {
	case e.Chosen != nil:
		if !slices.Contains(e.Best, seen.Node) {
			return fmt.Sprintf("node: expected one of %v", e.Best)
		}
	case e.Preemption != nil:
		if !slices.Contains(e.Preemption.Best, seen.Nominated) {
			return fmt.Sprintf("nominated node: expected one of %v", e.Preemption.Best)
		}
		for _, candidate := range e.Preemption.Candidates {
			expected := slices.Sorted(slices.Values(candidate.Victims))
			if candidate.Node == seen.Nominated && !slices.Equal(expected, seen.Victims) {
				return fmt.Sprintf("victims: expected %v", expected)
			}
		}
	case seen.Node != "" || seen.Nominated != "":
		return "expected no node"
	}
	return ""
}

// report says how many decisions were compared, if any were, and returns the exit code.
func (c *controlPlane) report(messages io.Writer) int {
	if c == nil || c.decisions == 0 {
		return 0
	}
	fmt.Fprintf(messages, "schedcompare: %d decisions of a real kube-scheduler, %d not as foretold; %d clusters were tried twice\n",
		c.decisions, c.disagreements, c.repeated)
	return min(c.disagreements, 1)
}
