package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// store answers the scheduler's reads from memory, as the controller's informer cache does. It holds bound pods only:
// pending ones are handed to the scheduler directly, which leaves them out of its counts anyway. Writes are not
// supported; the embedded interface is nil.
type store struct {
	client.Client
	nodes          map[string]*corev1.Node
	csiNodes       map[string]*storagev1.CSINode
	volumes        map[string]*corev1.PersistentVolume
	storageClasses map[string]*storagev1.StorageClass
	claims         map[types.NamespacedName]*corev1.PersistentVolumeClaim
	namespaces     []*corev1.Namespace
	daemonSets     []*appsv1.DaemonSet
	byNamespace    map[string][]*corev1.Pod
	byNode         map[string][]*corev1.Pod
	nodePools      []*karpv1.NodePool // set where disruption runs, which lists them itself
}

func newStore(m *manifests, pods []*corev1.Pod) *store {
	s := &store{
		nodes:          map[string]*corev1.Node{},
		csiNodes:       map[string]*storagev1.CSINode{},
		volumes:        map[string]*corev1.PersistentVolume{},
		storageClasses: map[string]*storagev1.StorageClass{},
		claims:         map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		daemonSets:     m.daemonSets,
		byNamespace:    map[string][]*corev1.Pod{},
		byNode:         map[string][]*corev1.Pod{},
	}
	for _, n := range m.nodes {
		s.nodes[n.Name] = n
	}
	for _, n := range m.csiNodes {
		s.csiNodes[n.Name] = n
	}
	for _, v := range m.volumes {
		s.volumes[v.Name] = v
	}
	for _, c := range m.storageClasses {
		s.storageClasses[c.Name] = c
	}
	for _, c := range m.claims {
		s.claims[client.ObjectKeyFromObject(c)] = c
	}
	known := map[string]bool{}
	for _, n := range m.namespaces {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[corev1.LabelMetadataName] = n.Name
		known[n.Name] = true
		s.namespaces = append(s.namespaces, n)
	}
	for _, p := range pods {
		if !known[p.Namespace] {
			known[p.Namespace] = true
			s.namespaces = append(s.namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: p.Namespace, Labels: map[string]string{corev1.LabelMetadataName: p.Namespace}}})
		}
	}
	return s
}

func (s *store) remove(p *corev1.Pod) {
	isIt := func(other *corev1.Pod) bool { return other.Name == p.Name && other.Namespace == p.Namespace }
	s.byNamespace[p.Namespace] = slices.DeleteFunc(s.byNamespace[p.Namespace], isIt)
	s.byNode[p.Spec.NodeName] = slices.DeleteFunc(s.byNode[p.Spec.NodeName], isIt)
}

func objectKey(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func (s *store) addBound(p *corev1.Pod) {
	s.byNamespace[p.Namespace] = append(s.byNamespace[p.Namespace], p)
	s.byNode[p.Spec.NodeName] = append(s.byNode[p.Spec.NodeName], p)
}

// Get copies the named object into out.
func (s *store) Get(_ context.Context, key client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	switch out := out.(type) {
	case *corev1.Node:
		return copyInto(s.nodes[key.Name], out, key, "nodes")
	case *storagev1.CSINode:
		return copyInto(s.csiNodes[key.Name], out, key, "csinodes")
	case *corev1.PersistentVolume:
		return copyInto(s.volumes[key.Name], out, key, "persistentvolumes")
	case *storagev1.StorageClass:
		return copyInto(s.storageClasses[key.Name], out, key, "storageclasses")
	case *corev1.PersistentVolumeClaim:
		return copyInto(s.claims[key], out, key, "persistentvolumeclaims")
	default:
		return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", out)}, key.Name)
	}
}

func copyInto[T any, P interface {
	*T
	DeepCopyInto(*T)
}](found P, out P, key client.ObjectKey, resource string) error {
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, key.Name)
	}
	found.DeepCopyInto((*T)(out))
	return nil
}

// List fills out with the objects selected by namespace, labels, and spec.nodeName for pods.
func (s *store) List(_ context.Context, out client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	selector := o.LabelSelector
	if selector == nil {
		selector = labels.Everything()
	}
	switch out := out.(type) {
	case *corev1.PodList:
		out.Items = nil
		from := s.byNamespace[o.Namespace]
		if o.FieldSelector != nil {
			name, ok := o.FieldSelector.RequiresExactMatch("spec.nodeName")
			if !ok {
				return fmt.Errorf("listing pods by %s is not supported", o.FieldSelector)
			}
			from = s.byNode[name]
		}
		for _, p := range from {
			if selector.Matches(labels.Set(p.Labels)) {
				out.Items = append(out.Items, *p)
			}
		}
	case *corev1.NamespaceList:
		out.Items = nil
		for _, n := range s.namespaces {
			if selector.Matches(labels.Set(n.Labels)) {
				out.Items = append(out.Items, *n)
			}
		}
	case *karpv1.NodePoolList:
		out.Items = nil
		for _, p := range s.nodePools {
			out.Items = append(out.Items, *p)
		}
	case *policyv1.PodDisruptionBudgetList:
		out.Items = nil
	case *appsv1.DaemonSetList:
		out.Items = nil
		for _, d := range s.daemonSets {
			out.Items = append(out.Items, *d)
		}
	default:
		return fmt.Errorf("listing %T is not supported", out)
	}
	return nil
}
