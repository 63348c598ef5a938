package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// cluster are the objects of one input, in its order.
type cluster struct {
	objects         []runtime.Object
	priorityClasses map[string]*schedulingv1.PriorityClass
	// ignored are kinds that the scheduler does not read.
	ignored map[string]int
	// follow are decisions that were made elsewhere, in a case of --batch.
	follow []decision
	// independent tells how a case of --batch is evaluated.
	independent bool
}

// startOfTime is the start of bound pods that do not say when they started; the scheduler would take the present time,
// and preemption would depend on it.
var startOfTime = metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))

func newCluster() *cluster {
	created := &cluster{priorityClasses: map[string]*schedulingv1.PriorityClass{}, ignored: map[string]int{}}
	for name, value := range map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000} {
		created.priorityClasses[name] = &schedulingv1.PriorityClass{Value: value}
	}
	return created
}

// readFiles reads files of YAML documents or JSON, where - is standard input, as one cluster.
func readFiles(paths []string) (*cluster, error) {
	read := newCluster()
	for _, path := range paths {
		if err := read.readFile(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return read, read.complete()
}

func (c *cluster) readFile(path string) error {
	input := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		input = file
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(input))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		// JSON is not put through a YAML parser: that takes minutes for a large cluster.
		if trimmed := bytes.TrimSpace(document); len(trimmed) > 0 && trimmed[0] == '{' {
			document = trimmed
		} else if document, err = yaml.YAMLToJSONStrict(document); err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		if bytes.Equal(bytes.TrimSpace(document), []byte("null")) {
			continue
		}
		if err := c.add(document); err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
	}
}

// readCase reads a line of --batch: a List, which may have the fields follow and independent beside items.
func readCase(line []byte) (*cluster, error) {
	read := newCluster()
	if err := read.add(line); err != nil {
		return nil, err
	}
	return read, read.complete()
}

// add adds one object, or those of a List.
func (c *cluster) add(text []byte) error {
	var head struct {
		APIVersion  string            `json:"apiVersion"`
		Kind        string            `json:"kind"`
		Items       []json.RawMessage `json:"items"`
		Follow      []decision        `json:"follow"`
		Independent bool              `json:"independent"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if of, list := strings.CutSuffix(head.Kind, "List"); list && head.Items != nil {
		c.follow = append(c.follow, head.Follow...)
		c.independent = c.independent || head.Independent
		for i, item := range head.Items {
			if err := c.addItem(item, head.APIVersion, of); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	return c.addItem(text, "", "")
}

// addItem adds one object, which in a PodList need not say that it is a Pod.
func (c *cluster) addItem(text []byte, apiVersion, kind string) error {
	var head metav1.TypeMeta
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Kind == "" && kind != "" {
		head.APIVersion, head.Kind = apiVersion, kind
	}
	if head.Kind == "" || head.APIVersion == "" {
		return errors.New("expected apiVersion and kind")
	}
	gvk := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	_, isRead := read[gvk.Kind]
	if !isRead && gvk.Kind != "PriorityClass" || !scheme.Scheme.Recognizes(gvk) {
		c.ignored[gvk.Kind]++
		return nil
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(text, object)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", gvk.Kind, nameOf(object), err)
	}
	if isRead && gvk.GroupVersion() != versionOf(read[gvk.Kind]) {
		return fmt.Errorf("%s %s: expected apiVersion %s, got %s", gvk.Kind, nameOf(object), versionOf(read[gvk.Kind]), gvk.GroupVersion())
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	legacyscheme.Scheme.Default(object)
	if class, ok := object.(*schedulingv1.PriorityClass); ok {
		c.priorityClasses[class.Name] = class
		return nil
	}
	c.objects = append(c.objects, object)
	return nil
}

func versionOf(object runtime.Object) schema.GroupVersion {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil || len(kinds) == 0 {
		return schema.GroupVersion{}
	}
	return kinds[0].GroupVersion()
}

func nameOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	if accessor.GetNamespace() == "" {
		return accessor.GetName()
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}

// namespaced are the kinds that are in namespace default where they name none.
func namespaced(object runtime.Object) bool {
	switch object.(type) {
	case *v1.Node, *v1.Namespace, *v1.PersistentVolume:
		return false
	default:
		group := versionOf(object).Group
		return group == "" || group == "apps" || group == "policy"
	}
}

// complete gives the objects what admission and the controllers of a cluster would have given them, as far as the
// scheduler looks at it: namespaces, identities, priorities, and the marks of a claim that is bound.
func (c *cluster) complete() error {
	namespaces := map[string]bool{}
	used := []string{}
	seen := map[string]bool{}
	var claims []*v1.PersistentVolumeClaim
	volumes := map[string]*v1.PersistentVolume{}
	for i, object := range c.objects {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		if accessor.GetName() == "" {
			return fmt.Errorf("%T without metadata.name", object)
		}
		if accessor.GetNamespace() == "" && namespaced(object) {
			accessor.SetNamespace(metav1.NamespaceDefault)
		}
		if accessor.GetUID() == "" {
			accessor.SetUID(types.UID(fmt.Sprintf("%T/%s", object, nameOf(object))))
		}
		accessor.SetResourceVersion(fmt.Sprint(i + 1))
		key := fmt.Sprintf("%T %s", object, nameOf(object))
		if seen[key] {
			return fmt.Errorf("%s is there twice", strings.TrimPrefix(key, "*"))
		}
		seen[key] = true

		switch object := object.(type) {
		case *v1.Namespace:
			namespaces[object.Name] = true
			metav1.SetMetaDataLabel(&object.ObjectMeta, v1.LabelMetadataName, object.Name)
		case *v1.Pod:
			used = append(used, object.Namespace)
			if err := c.prioritize(object); err != nil {
				return fmt.Errorf("Pod %s: %w", nameOf(object), err)
			}
			if object.Spec.NodeName != "" && object.Status.StartTime == nil {
				object.Status.StartTime = startOfTime.DeepCopy()
			}
		case *v1.PersistentVolumeClaim:
			claims = append(claims, object)
		case *v1.PersistentVolume:
			volumes[object.Name] = object
		}
	}
	bindVolumes(claims, volumes)
	for _, name := range used {
		if !namespaces[name] {
			namespaces[name] = true
			namespace := &v1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelMetadataName: name}}}
			c.objects = append(c.objects, namespace)
		}
	}
	return nil
}

// bindVolumes does what the volume controller does with manifests that no cluster has seen: it marks a claim that names
// its volume as bound, and a volume that nobody claims as available.
func bindVolumes(claims []*v1.PersistentVolumeClaim, volumes map[string]*v1.PersistentVolume) {
	for _, claim := range claims {
		volume, known := volumes[claim.Spec.VolumeName]
		if !known || claim.Status.Phase == v1.ClaimLost {
			continue
		}
		if owner := volume.Spec.ClaimRef; owner == nil {
			volume.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		} else if owner.Namespace != claim.Namespace || owner.Name != claim.Name {
			continue
		}
		claim.Status.Phase, volume.Status.Phase = v1.ClaimBound, v1.VolumeBound
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	}
	for _, volume := range volumes {
		if volume.Status.Phase == v1.VolumePending && volume.Spec.ClaimRef == nil {
			volume.Status.Phase = v1.VolumeAvailable
		}
	}
}

// prioritize does what the admission plugin Priority does.
func (c *cluster) prioritize(pod *v1.Pod) error {
	if pod.Spec.Priority != nil {
		return nil
	}
	class := &schedulingv1.PriorityClass{}
	if name := pod.Spec.PriorityClassName; name != "" {
		named, known := c.priorityClasses[name]
		if !known {
			return fmt.Errorf("spec.priorityClassName: no PriorityClass %q in the input", name)
		}
		class = named
	} else {
		for _, candidate := range c.priorityClasses {
			// Of several global defaults the one with the smallest value counts.
			if candidate.GlobalDefault && (!class.GlobalDefault || candidate.Value < class.Value) {
				class = candidate
			}
		}
	}
	value := class.Value
	pod.Spec.Priority = &value
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = class.PreemptionPolicy
	}
	return nil
}
