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

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"
)

// manifests holds the objects of one input that matter to provisioning, in the order read.
type manifests struct {
	nodePools      []*karpv1.NodePool
	nodeClaims     []*karpv1.NodeClaim
	pods           []*corev1.Pod
	deployments    []*appsv1.Deployment
	replicaSets    []*appsv1.ReplicaSet
	statefulSets   []*appsv1.StatefulSet
	daemonSets     []*appsv1.DaemonSet
	jobs           []*batchv1.Job
	cronJobs       []*batchv1.CronJob
	nodes          []*corev1.Node
	csiNodes       []*storagev1.CSINode
	namespaces     []*corev1.Namespace
	claims         []*corev1.PersistentVolumeClaim
	volumes        []*corev1.PersistentVolume
	storageClasses []*storagev1.StorageClass
	claimNames     map[types.NamespacedName]bool
	keysOfInterest map[string]bool // reservation id keys that the manifests mention
}

// reservationIDKeys are the label keys under which a catalogue may name a capacity reservation.
var reservationIDKeys = []string{
	"berth.sh/capacity-reservation-id",
	"karpenter.sh/reservation-id",
	"karpenter.k8s.aws/capacity-reservation-id",
}

func newManifests() *manifests {
	return &manifests{keysOfInterest: map[string]bool{}}
}

// readFile adds the documents of a file, `-` being standard input.
func (m *manifests) readFile(path string) error {
	var in io.Reader = os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	buffered := bufio.NewReaderSize(in, 1<<20)
	if isJSON(buffered) {
		return m.readJSON(path, buffered)
	}
	reader := utilyaml.NewYAMLReader(buffered)
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		raw, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		if err := m.add(raw); err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
	}
}

func isJSON(r *bufio.Reader) bool {
	for n := 1; n <= 4096; n++ {
		head, err := r.Peek(n)
		if err != nil || len(head) < n {
			return false
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

func (m *manifests) readJSON(path string, r io.Reader) error {
	decoder := json.NewDecoder(r)
	for n := 1; ; n++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
		if err := m.add(raw); err != nil {
			return fmt.Errorf("%s: document %d: %w", path, n, err)
		}
	}
}

// add takes one JSON document: an object, a List of objects, or an array of objects.
func (m *manifests) add(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if raw[0] == '[' {
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
		return m.addAll(items)
	}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if head.Kind == "" {
		return fmt.Errorf("object has no kind")
	}
	if strings.HasSuffix(head.Kind, "List") {
		return m.addAll(head.Items)
	}
	for _, key := range reservationIDKeys {
		if bytes.Contains(raw, []byte(key)) {
			m.keysOfInterest[key] = true
		}
	}
	if err := m.addObject(head.Kind, raw); err != nil {
		return fmt.Errorf("%s: %w", head.Kind, err)
	}
	return nil
}

func (m *manifests) addAll(items []json.RawMessage) error {
	for i, item := range items {
		if err := m.add(item); err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
	}
	return nil
}

func (m *manifests) addObject(kind string, raw []byte) error {
	switch kind {
	case "NodePool":
		return appendTo(&m.nodePools, raw)
	case "NodeClaim":
		return appendTo(&m.nodeClaims, raw)
	case "Pod":
		return appendTo(&m.pods, raw)
	case "Deployment":
		return appendTo(&m.deployments, raw)
	case "ReplicaSet":
		return appendTo(&m.replicaSets, raw)
	case "StatefulSet":
		return appendTo(&m.statefulSets, raw)
	case "DaemonSet":
		return appendTo(&m.daemonSets, raw)
	case "Job":
		return appendTo(&m.jobs, raw)
	case "CronJob":
		return appendTo(&m.cronJobs, raw)
	case "Node":
		return appendTo(&m.nodes, raw)
	case "CSINode":
		return appendTo(&m.csiNodes, raw)
	case "Namespace":
		return appendTo(&m.namespaces, raw)
	case "PersistentVolumeClaim":
		return appendTo(&m.claims, raw)
	case "PersistentVolume":
		return appendTo(&m.volumes, raw)
	case "StorageClass":
		return appendTo(&m.storageClasses, raw)
	default:
		return nil // nothing that decides about nodes
	}
}

func appendTo[T any](objects *[]*T, raw []byte) error {
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		return err
	}
	if meta, ok := any(object).(metav1.Object); ok && meta.GetName() == "" {
		return fmt.Errorf("metadata.name is missing")
	}
	*objects = append(*objects, object)
	return nil
}
