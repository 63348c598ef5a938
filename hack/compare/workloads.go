package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const defaultStorageClassAnnotation = "storageclass.kubernetes.io/is-default-class"

// owner names a controller within one input; UIDs are not needed, as an input is one cluster.
type owner struct{ kind, namespace, name string }

func controllerOf(meta *metav1.ObjectMeta) owner {
	for _, ref := range meta.OwnerReferences {
		if ref.Controller != nil && *ref.Controller {
			return owner{ref.Kind, namespaceOf(meta), ref.Name}
		}
	}
	return owner{}
}

func namespaceOf(meta *metav1.ObjectMeta) string {
	if meta.Namespace == "" {
		return "default"
	}
	return meta.Namespace
}

// expandWorkloads returns every pod of the input that has not ended: the single ones, then those of the workloads.
// An object whose controller is in the input is not expanded again, and live children are subtracted.
func (m *manifests) expandWorkloads() []*corev1.Pod {
	var pods []*corev1.Pod
	live := map[owner]int{}
	for _, p := range m.pods {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
			continue
		}
		live[controllerOf(&p.ObjectMeta)]++
		pods = append(pods, p)
	}
	present := map[owner]bool{}
	for _, d := range m.deployments {
		present[owner{"Deployment", namespaceOf(&d.ObjectMeta), d.Name}] = true
	}
	for _, c := range m.cronJobs {
		present[owner{"CronJob", namespaceOf(&c.ObjectMeta), c.Name}] = true
	}
	expand := func(kind string, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, want int) []*corev1.Pod {
		self := owner{kind, namespaceOf(meta), meta.Name}
		have := live[self]
		if parent := controllerOf(meta); present[parent] {
			live[parent] += have
			return nil
		}
		var out []*corev1.Pod
		for i := range max(0, want-have) {
			out = append(out, podOf(kind, meta, template, i))
		}
		pods = append(pods, out...)
		return out
	}
	for _, r := range m.replicaSets {
		expand("ReplicaSet", &r.ObjectMeta, &r.Spec.Template, countOr(r.Spec.Replicas, 1))
	}
	for _, j := range m.jobs {
		expand("Job", &j.ObjectMeta, &j.Spec.Template, jobPods(j.Spec.Parallelism, j.Spec.Completions, j.Status.Succeeded, j.Spec.Suspend))
	}
	for _, d := range m.deployments {
		expand("Deployment", &d.ObjectMeta, &d.Spec.Template, countOr(d.Spec.Replicas, 1))
	}
	for _, s := range m.statefulSets {
		for i, p := range expand("StatefulSet", &s.ObjectMeta, &s.Spec.Template, countOr(s.Spec.Replicas, 1)) {
			for _, template := range s.Spec.VolumeClaimTemplates {
				m.addClaimOf(p, template, fmt.Sprintf("%s-%s-%d", template.Name, s.Name, i))
			}
		}
	}
	for _, c := range m.cronJobs {
		job := &c.Spec.JobTemplate.Spec
		expand("CronJob", &c.ObjectMeta, &job.Template, jobPods(job.Parallelism, job.Completions, 0, c.Spec.Suspend))
	}
	for i, p := range pods {
		p.Namespace = namespaceOf(&p.ObjectMeta)
		p.UID = types.UID(fmt.Sprintf("%08d", i))
		setPodDefaults(&p.Spec)
		m.addEphemeralClaims(p)
	}
	return pods
}

func countOr(count *int32, fallback int) int {
	if count == nil {
		return fallback
	}
	return int(*count)
}

func jobPods(parallelism, completions *int32, succeeded int32, suspend *bool) int {
	if suspend != nil && *suspend {
		return 0
	}
	want := countOr(parallelism, 1)
	if completions != nil {
		want = min(want, int(*completions-succeeded))
	}
	return max(0, want)
}

func podOf(kind string, meta *metav1.ObjectMeta, template *corev1.PodTemplateSpec, i int) *corev1.Pod {
	controller := true
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Name = fmt.Sprintf("%s-%d", meta.Name, i)
	pod.Namespace = namespaceOf(meta)
	pod.CreationTimestamp = meta.CreationTimestamp
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: meta.Name, Controller: &controller}}
	return pod
}

// setPodDefaults fills in what the API server would have, as far as the scheduler looks at it.
func setPodDefaults(spec *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			for name, limit := range c.Resources.Limits {
				if _, ok := c.Resources.Requests[name]; !ok {
					if c.Resources.Requests == nil {
						c.Resources.Requests = corev1.ResourceList{}
					}
					c.Resources.Requests[name] = limit
				}
			}
			for j := range c.Ports {
				if c.Ports[j].Protocol == "" {
					c.Ports[j].Protocol = corev1.ProtocolTCP
				}
				if spec.HostNetwork && c.Ports[j].HostPort == 0 {
					c.Ports[j].HostPort = c.Ports[j].ContainerPort
				}
			}
		}
	}
	for i := range spec.TopologySpreadConstraints {
		t := &spec.TopologySpreadConstraints[i]
		if t.WhenUnsatisfiable == "" {
			t.WhenUnsatisfiable = corev1.DoNotSchedule
		}
		if t.MaxSkew == 0 {
			t.MaxSkew = 1
		}
		if t.LabelSelector == nil && len(t.MatchLabelKeys) > 0 {
			t.LabelSelector = &metav1.LabelSelector{}
		}
	}
}

// addClaim keeps the claim unless the input holds one of that name.
func (m *manifests) addClaim(claim *corev1.PersistentVolumeClaim) {
	if m.claimNames == nil {
		m.claimNames = map[types.NamespacedName]bool{}
		for _, c := range m.claims {
			m.claimNames[types.NamespacedName{Namespace: namespaceOf(&c.ObjectMeta), Name: c.Name}] = true
		}
	}
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	if !m.claimNames[name] {
		m.claimNames[name] = true
		m.claims = append(m.claims, claim)
	}
}

// addClaimOf mounts the claim of a StatefulSet's template, and makes it where the input does not hold it.
func (m *manifests) addClaimOf(p *corev1.Pod, template corev1.PersistentVolumeClaim, name string) {
	claim := template.DeepCopy()
	claim.Name, claim.Namespace = name, p.Namespace
	m.addClaim(claim)
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: template.Name, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
}

func (m *manifests) addEphemeralClaims(p *corev1.Pod) {
	for _, v := range p.Spec.Volumes {
		if v.Ephemeral == nil || v.Ephemeral.VolumeClaimTemplate == nil {
			continue
		}
		m.addClaim(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name + "-" + v.Name, Namespace: p.Namespace},
			Spec:       v.Ephemeral.VolumeClaimTemplate.Spec})
	}
}

// setClaimDefaults gives claims without a class the default class, as the API server does.
func (m *manifests) setClaimDefaults() {
	var class *storagev1.StorageClass
	for _, s := range m.storageClasses {
		if s.VolumeBindingMode == nil {
			mode := storagev1.VolumeBindingImmediate
			s.VolumeBindingMode = &mode
		}
		if s.Annotations[defaultStorageClassAnnotation] == "true" {
			class = s
		}
	}
	for _, c := range m.claims {
		c.Namespace = namespaceOf(&c.ObjectMeta)
		if c.Spec.StorageClassName == nil && class != nil {
			c.Spec.StorageClassName = &class.Name
		}
	}
}
