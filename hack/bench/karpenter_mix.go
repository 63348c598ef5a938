//go:build ignore

// karpenter_mix writes the pods and instance types of Karpenter's scheduling benchmark as input files.
//
//	go run hack/bench/karpenter_mix.go PODS OUT [SEED]
//
// OUT.json is a List of one NodePool and PODS single Pods; OUT-types.json the 400 types of Karpenter's fake provider, with
// what pods may use as resources. Pods follow makeDiversePods in
// pkg/controllers/provisioning/scheduling/scheduling_benchmark_test.go (sigs.k8s.io/karpenter v1.14.1), drawn from the same
// generator with the same seed (42, unless told otherwise) in the same order, so that they are the pods of a benchmark case
// that runs alone.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
)

const (
	zoneKey     = "topology.kubernetes.io/zone"
	hostnameKey = "kubernetes.io/hostname"
	capacityKey = "karpenter.sh/capacity-type"
	typeCount   = 400
)

type object = map[string]any

var r = rand.New(rand.NewSource(42))

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fail("usage: karpenter_mix PODS OUT [SEED]")
	}
	if len(os.Args) == 4 {
		seed, err := strconv.ParseInt(os.Args[3], 10, 64)
		if err != nil {
			fail("SEED: expected a number, found " + os.Args[3])
		}
		r = rand.New(rand.NewSource(seed))
	}
	count, err := strconv.Atoi(os.Args[1])
	if err != nil || count < 0 {
		fail("PODS: expected a count, found " + os.Args[1])
	}
	items := []object{nodePool()}
	for i, spec := range diversePods(count) {
		spec["apiVersion"], spec["kind"] = "v1", "Pod"
		meta := spec["metadata"].(object)
		meta["name"], meta["namespace"] = fmt.Sprintf("pod-%05d", i), "default"
		items = append(items, spec)
	}
	write(os.Args[2]+".json", object{"apiVersion": "v1", "kind": "List", "items": items})
	write(os.Args[2]+"-types.json", instanceTypes())
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(2)
}

func write(path string, value any) {
	f, err := os.Create(path)
	if err != nil {
		fail(err.Error())
	}
	out := bufio.NewWriter(f)
	if err := json.NewEncoder(out).Encode(value); err != nil {
		fail(err.Error())
	}
	if err := out.Flush(); err != nil {
		fail(err.Error())
	}
	if err := f.Close(); err != nil {
		fail(err.Error())
	}
}

func nodePool() object {
	return object{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": object{"name": "default"}, "spec": object{
		"limits": object{"cpu": "10000000", "memory": "10000000Gi"},
		"template": object{"spec": object{
			"nodeClassRef": object{"group": "berth.sh", "kind": "FakeNodeClass", "name": "default"},
			"requirements": []object{}, "expireAfter": "720h",
		}},
	}}
}

// instanceTypes has i vCPU, 2i GiB and 10i pods, less the fake provider's overhead of 100m and 10Mi; the price is that of
// the whole machine: 0.1 per vCPU and per 10^9 bytes.
func instanceTypes() []object {
	var out []object
	for i := 1; i <= typeCount; i++ {
		price := 0.1*float64(i) + 0.1*float64(2*i<<30)/1e9
		var offerings []object
		for _, o := range [][2]string{{"spot", "test-zone-1"}, {"spot", "test-zone-2"},
			{"on-demand", "test-zone-1"}, {"on-demand", "test-zone-2"}, {"on-demand", "test-zone-3"}} {
			offerings = append(offerings, object{"Price": price, "Available": true,
				"Requirements": []object{in(capacityKey, o[0]), in(zoneKey, o[1])}})
		}
		out = append(out, object{
			"name": fmt.Sprintf("fake-it-%d", i-1), "architecture": "amd64",
			"operatingSystems": []string{"darwin", "linux", "windows"},
			"resources": object{"cpu": fmt.Sprintf("%dm", 1000*i-100), "memory": fmt.Sprintf("%dMi", 2048*i-10),
				"pods": strconv.Itoa(10 * i)},
			"offerings": offerings,
		})
	}
	return out
}

func in(key, value string) object {
	return object{"key": key, "operator": "In", "values": []string{value}}
}

func diversePods(count int) []object {
	const kinds = 5
	var pods []object
	pods = append(pods, genericPods(count/kinds)...)
	pods = append(pods, spreadPods(count/kinds, zoneKey)...)
	pods = append(pods, spreadPods(count/kinds, hostnameKey)...)
	pods = append(pods, affinityPods(count/kinds, zoneKey)...)
	pods = append(pods, antiAffinityPods(count/kinds, hostnameKey)...)
	return append(pods, genericPods(count-len(pods))...)
}

func genericPods(count int) []object {
	var pods []object
	for range count {
		labels := randomLabels()
		pods = append(pods, pod(labels, object{}))
	}
	return pods
}

func spreadPods(count int, key string) []object {
	var pods []object
	for range count {
		labels := randomLabels()
		selected := randomLabels()
		pods = append(pods, pod(labels, object{"topologySpreadConstraints": []object{{
			"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
			"labelSelector": object{"matchLabels": selected}}}}))
	}
	return pods
}

func affinityPods(count int, key string) []object {
	var pods []object
	for range count {
		labels := object{"my-affininity": randomLabelValue()} // spelt as upstream
		pods = append(pods, pod(labels, object{"affinity": object{"podAffinity": required(key, labels)}}))
	}
	return pods
}

func antiAffinityPods(count int, key string) []object {
	var pods []object
	for range count {
		labels := object{"app": "nginx"}
		pods = append(pods, pod(labels, object{"affinity": object{"podAntiAffinity": required(key, labels)}}))
	}
	return pods
}

func required(key string, labels object) object {
	return object{"requiredDuringSchedulingIgnoredDuringExecution": []object{
		{"topologyKey": key, "labelSelector": object{"matchLabels": labels}}}}
}

// pod draws its CPU, then its memory, after whatever its caller drew.
func pod(labels, spec object) object {
	cpu := []int{100, 250, 500, 1000, 1500}[r.Intn(5)]
	memory := []int{100, 256, 512, 1024, 2048, 4096}[r.Intn(6)]
	spec["containers"] = []object{{"name": "main", "image": "pause", "resources": object{"requests": object{
		"cpu": fmt.Sprintf("%dm", cpu), "memory": fmt.Sprintf("%dMi", memory)}}}}
	return object{"metadata": object{"labels": labels}, "spec": spec}
}

func randomLabels() object { return object{"my-label": randomLabelValue()} }

func randomLabelValue() string { return string(rune('a' + r.Intn(7))) }
