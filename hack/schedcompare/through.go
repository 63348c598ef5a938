package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
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

// controlPlane is an API server with a kube-scheduler and no controllers, as hack/testenv starts one: this program does
// what a kubelet does. It has to be empty, and is emptied after each cluster.
type controlPlane struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface

	// classes are the names of the PriorityClasses that are there.
	classes sync.Map

	decisions, disagreements int
}

const (
	// patience is for one decision of the scheduler.
	patience = 30 * time.Second
	canary   = "schedcompare-canary"
)

func connect(kubeconfig string) (*controlPlane, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(config.Host, "https://127.0.0.1:") {
		return nil, fmt.Errorf("%s: server %s: expected one on 127.0.0.1, for it is emptied", kubeconfig, config.Host)
	}
	config.QPS, config.Burst = 5000, 5000
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &controlPlane{typed: typed, dynamic: untyped}, nil
}

// resourceOf is where objects of a kind are created.
func (c *controlPlane) resourceOf(object runtime.Object, namespace string) dynamic.ResourceInterface {
	gvk := object.GetObjectKind().GroupVersionKind()
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	if gvk.Kind == "CSIStorageCapacity" {
		resource = schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: "csistoragecapacities"}
	}
	if namespaced(object) {
		return c.dynamic.Resource(resource).Namespace(namespace)
	}
	return c.dynamic.Resource(resource)
}

// create creates an object with its status, or leaves the one that a control plane has by itself.
func (c *controlPlane) create(ctx context.Context, object runtime.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	made := &unstructured.Unstructured{Object: fields}
	made.SetUID("")
	made.SetResourceVersion("")
	unstructured.RemoveNestedField(made.Object, "spec", "claimRef", "uid")
	status := made.Object["status"]
	resource := c.resourceOf(object, made.GetNamespace())
	if pod, ok := object.(*v1.Pod); ok {
		class, err := c.priorityClass(ctx, pod)
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(made.Object, class, "spec", "priorityClassName"); err != nil {
			return err
		}
	}
	// Those who bind a claim need its identity.
	if reference, found, _ := unstructured.NestedMap(made.Object, "spec", "claimRef"); found {
		namespace, name := fmt.Sprint(reference["namespace"]), fmt.Sprint(reference["name"])
		claim, err := c.typed.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			_ = unstructured.SetNestedField(made.Object, string(claim.UID), "spec", "claimRef", "uid") // it is a map
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	created, err := resource.Create(ctx, made, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) && made.GetKind() == "Namespace" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", made.GetKind(), nameOf(object), err)
	}
	if pod, ok := object.(*v1.Pod); ok && pod.Status.StartTime != nil {
		return c.setStarted(ctx, pod, pod.Status.StartTime)
	}
	switch made.GetKind() {
	case "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "VolumeAttachment":
		created.Object["status"] = status
		if _, err := resource.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("status of %s %s: %w", made.GetKind(), nameOf(object), err)
		}
	}
	return nil
}

// priorityClass returns a class of the pod's priority and policy: a server takes a priority from nothing else.
func (c *controlPlane) priorityClass(ctx context.Context, pod *v1.Pod) (string, error) {
	class := &schedulingv1.PriorityClass{PreemptionPolicy: pod.Spec.PreemptionPolicy}
	if pod.Spec.Priority != nil {
		class.Value = *pod.Spec.Priority
	}
	switch class.Value {
	case 2000000000:
		return "system-cluster-critical", nil
	case 2000001000:
		return "system-node-critical", nil
	}
	class.Name = strings.Replace(fmt.Sprintf("priority-%d", class.Value), "--", "-minus-", 1)
	if class.PreemptionPolicy != nil {
		class.Name += "-" + strings.ToLower(string(*class.PreemptionPolicy))
	}
	if _, known := c.classes.Load(class.Name); known {
		return class.Name, nil
	}
	_, err := c.typed.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	c.classes.Store(class.Name, nil)
	return class.Name, nil
}

// prepare creates what is there before the first pending pod, and returns when the scheduler has seen it.
func (c *controlPlane) prepare(ctx context.Context, cluster *cluster) error {
	// Claims come before the volumes that name them, and namespaces before all.
	rank := map[string]int{"Namespace": -2, "PersistentVolumeClaim": -1}
	objects := slices.Clone(cluster.objects)
	slices.SortStableFunc(objects, func(a, b runtime.Object) int {
		return rank[a.GetObjectKind().GroupVersionKind().Kind] - rank[b.GetObjectKind().GroupVersionKind().Kind]
	})
	nodes, others := 0, false
	for _, object := range objects {
		switch object := object.(type) {
		case *v1.Pod:
			if object.Spec.NodeName == "" {
				continue
			}
		case *v1.Node:
			nodes++
		case *v1.Namespace:
		default:
			others = true
		}
		if err := c.create(ctx, object); err != nil {
			return err
		}
	}
	if others {
		// Nothing tells when the scheduler has seen these; its watches are milliseconds behind.
		time.Sleep(300 * time.Millisecond)
	}
	return c.waitForNodes(ctx, nodes)
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
		if _, err := pods.Create(ctx, misfit, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod, err := c.waitForDecision(ctx, metav1.NamespaceDefault, canary)
		if err != nil {
			return err
		}
		if err := c.deleteNow(ctx, pod); err != nil {
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

func (c *controlPlane) deleteNow(ctx context.Context, pod *v1.Pod) error {
	now := int64(0)
	err := c.typed.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
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
	for begin := time.Now(); decided.Spec.NodeName == ""; {
		if time.Since(begin) > patience {
			return nil, fmt.Errorf("pod %s: not bound within %s after its preemption", nameOf(pod), patience)
		}
		evicted, err := c.finishEvictions(ctx)
		if err != nil {
			return nil, err
		}
		seen.Victims = append(seen.Victims, evicted...)
		time.Sleep(5 * time.Millisecond)
		if decided, err = c.typed.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
	}
	slices.Sort(seen.Victims)
	seen.Node = decided.Spec.NodeName
	return seen, nil
}

// finishEvictions removes the pods that are terminating, as their kubelets would, and returns their names.
func (c *controlPlane) finishEvictions(ctx context.Context) ([]string, error) {
	pods, err := c.typed.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var evicted []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.DeletionTimestamp != nil {
			evicted = append(evicted, nameOf(pod))
			if err := c.deleteNow(ctx, pod); err != nil {
				return nil, err
			}
		}
	}
	return evicted, nil
}

// setStarted gives a bound pod the start that it has here, as its kubelet would.
func (c *controlPlane) setStarted(ctx context.Context, pod *v1.Pod, start *metav1.Time) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"startTime": start}})
	if err != nil {
		return err
	}
	_, err = c.typed.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
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
		_, err = resource.Patch(ctx, accessor.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err == nil {
			err = resource.Delete(ctx, accessor.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
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
func through(plane *controlPlane, cluster *cluster, emit func(*evaluation) error) (err error) {
	ctx := context.Background()
	defer func() { err = errors.Join(err, plane.clear(ctx, cluster)) }()
	if err := plane.prepare(ctx, cluster); err != nil {
		return err
	}
	decide := func(result *evaluation, pod *v1.Pod, start *metav1.Time) (*decision, error) {
		seen, err := plane.schedule(ctx, pod)
		if err != nil {
			return nil, err
		}
		result.Observed = seen
		plane.decisions++
		if seen.Disagrees = result.disagreement(seen); seen.Disagrees != "" {
			plane.disagreements++
		}
		if seen.Node != "" {
			if err := plane.setStarted(ctx, pod, start); err != nil {
				return nil, err
			}
		}
		return &decision{Pod: result.Pod, Node: seen.Node, Victims: seen.Victims}, nil
	}
	return commitBy(cluster, decide, emit)
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
	fmt.Fprintf(messages, "schedcompare: %d decisions of a real kube-scheduler, %d not as foretold\n", c.decisions, c.disagreements)
	return min(c.disagreements, 1)
}
