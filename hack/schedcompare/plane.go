package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// controlPlane is an API server with a kube-scheduler and no controllers, as hack/testenv starts one: this program does
// what a kubelet does. It has to be empty, and is emptied after each cluster.
type controlPlane struct {
	typed   kubernetes.Interface
	dynamic dynamic.Interface

	// classes are the names of the PriorityClasses that are there.
	classes sync.Map

	decisions, disagreements, repeated int
}

// patience is for one decision of the scheduler, and for one change to the server. It is only ever used up by a failure.
const patience = time.Minute

// insist makes a request again while its refusal may pass, for as long as patience lasts.
func insist(request func() error) error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := request(); !passing(err) || time.Since(begin) > patience {
			return err
		}
	}
}

// passing tells whether the same request may succeed in a moment. Forbidden is what an admission plugin says that has not
// seen a new object yet, as Priority of a PriorityClass; a busy machine makes for the rest.
func passing(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

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
	if made.GetKind() == "Namespace" {
		return c.createNamespace(ctx, made)
	}
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
		var claim *v1.PersistentVolumeClaim
		err := insist(func() (err error) {
			claim, err = c.typed.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		})
		if err == nil {
			_ = unstructured.SetNestedField(made.Object, string(claim.UID), "spec", "claimRef", "uid") // it is a map
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	err = c.createNew(ctx, resource, made)
	if err != nil {
		return fmt.Errorf("%s %s: %w", made.GetKind(), nameOf(object), err)
	}
	if pod, ok := object.(*v1.Pod); ok && pod.Status.StartTime != nil {
		return c.setStarted(ctx, pod, pod.Status.StartTime)
	}
	switch made.GetKind() {
	case "PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "VolumeAttachment":
		err := insist(func() error {
			created, err := resource.Get(ctx, made.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			created.Object["status"] = status
			_, err = resource.UpdateStatus(ctx, created, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return fmt.Errorf("status of %s %s: %w", made.GetKind(), nameOf(object), err)
		}
	}
	return nil
}

// creators make objects at the same time where there are crowds of them.
const creators, crowd = 16, 1000

// createAll creates objects of which none needs another, up to the first that fails: a crowd in no order, few in theirs,
// for pods that started at the same time are told apart by it.
func (c *controlPlane) createAll(ctx context.Context, objects []runtime.Object) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(creators)
	if len(objects) < crowd {
		work.SetLimit(1)
	}
	for _, object := range objects {
		work.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.create(ctx, object)
		})
	}
	return work.Wait()
}

// createNew creates an object that is not there yet.
func (c *controlPlane) createNew(ctx context.Context, resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
	uncertain := false
	return insist(func() error {
		_, err := resource.Create(ctx, object, metav1.CreateOptions{})
		if uncertain && apierrors.IsAlreadyExists(err) {
			return nil // an answer was lost
		}
		uncertain = uncertain || passing(err) && !apierrors.IsForbidden(err)
		return err
	})
}

// createNamespace creates a namespace, or gives the one that an earlier cluster left the labels of this.
func (c *controlPlane) createNamespace(ctx context.Context, made *unstructured.Unstructured) error {
	namespaces := c.typed.CoreV1().Namespaces()
	err := insist(func() error {
		there, err := namespaces.Get(ctx, made.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = namespaces.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: made.GetName(), Labels: made.GetLabels()}}, metav1.CreateOptions{})
			return err
		}
		if err != nil || equality.Semantic.DeepEqual(there.Labels, made.GetLabels()) {
			return err
		}
		there.Labels = made.GetLabels()
		_, err = namespaces.Update(ctx, there, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("Namespace %s: %w", made.GetName(), err)
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
	class.Name = strings.Replace(fmt.Sprintf("schedcompare-%d", class.Value), "--", "-minus-", 1)
	if class.PreemptionPolicy != nil {
		class.Name += "-" + strings.ToLower(string(*class.PreemptionPolicy))
	}
	if _, known := c.classes.Load(class.Name); known {
		return class.Name, nil
	}
	err := insist(func() error {
		_, err := c.typed.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", fmt.Errorf("PriorityClass %s: %w", class.Name, err)
	}
	c.classes.Store(class.Name, nil)
	return class.Name, nil
}

func (c *controlPlane) deleteNow(ctx context.Context, pod *v1.Pod) error {
	return c.removeNow(ctx, nameOf(pod))
}

// removeNow removes the pod of that namespace and name without a grace period, as its kubelet does at the end of one.
func (c *controlPlane) removeNow(ctx context.Context, name string) error {
	now := int64(0)
	namespace, name, _ := strings.Cut(name, "/")
	return insist(func() error {
		err := c.typed.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// setStarted gives a bound pod the start that it has here, as its kubelet would.
func (c *controlPlane) setStarted(ctx context.Context, pod *v1.Pod, start *metav1.Time) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"startTime": start}})
	if err != nil {
		return err
	}
	return insist(func() error {
		_, err := c.typed.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}
