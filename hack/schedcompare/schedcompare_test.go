package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// output runs the program on a file of the given text and returns the lines that it wrote.
func output(t *testing.T, text string, flags ...string) []evaluation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines, messages bytes.Buffer
	if code := run(append([]string{"-f", file}, flags...), nil, &lines, &messages); code != 0 {
		t.Fatalf("exit code %d: %s", code, messages.String())
	}
	var results []evaluation
	decoder := json.NewDecoder(&lines)
	for decoder.More() {
		var result evaluation
		if err := decoder.Decode(&result); err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	return results
}

// of returns what the last attempt of a pod in namespace default came to.
func of(t *testing.T, results []evaluation, pod string) evaluation {
	t.Helper()
	for i := len(results) - 1; i >= 0; i-- {
		if results[i].Pod == "default/"+pod {
			return results[i]
		}
	}
	t.Fatalf("no line about %s", pod)
	return evaluation{}
}

func (e *evaluation) node(t *testing.T, name string) verdict {
	t.Helper()
	for _, verdict := range e.Nodes {
		if verdict.Node == name {
			return verdict
		}
	}
	t.Fatalf("%s: nothing about node %s", e.Pod, name)
	return verdict{}
}

func (e *evaluation) chosen() string {
	if e.Chosen == nil {
		return ""
	}
	return *e.Chosen
}

// nodes are n1 and n2 in zone a and n3 in zone b, each with 4 CPU, 8 GiB and room for 10 pods.
var nodes = node("n1", "a", "") + node("n2", "a", "") + node("n3", "b", "")

func node(name, zone, spec string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Node
metadata: {name: %[1]s, labels: {kubernetes.io/hostname: %[1]s, topology.kubernetes.io/zone: %[2]s}}
spec: {%[3]s}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
`, name, zone, spec)
}

// pod is a pod of the label app that requests CPU; spec is more of its spec, in flow style.
func pod(name, app, cpu, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec: {%scontainers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}
`, name, app, spec, cpu)
}

func TestEachFilterNamesItselfAndItsReasons(t *testing.T) {
	const (
		hard = "UnschedulableAndUnresolvable"
		soft = "Unschedulable"
	)
	for name, test := range map[string]struct {
		input  string
		node   string
		plugin string
		reason string
		code   string
	}{
		"taint": {
			node("n1", "a", "taints: [{key: k, value: v, effect: NoSchedule}]") + pod("p", "p", "1", ""),
			"n1", "TaintToleration", "node(s) had untolerated taint(s)", hard,
		},
		"unschedulable": {
			node("n1", "a", "unschedulable: true") + pod("p", "p", "1", ""),
			"n1", "NodeUnschedulable", "node(s) were unschedulable", hard,
		},
		"node selector": {
			nodes + pod("p", "p", "1", "nodeSelector: {topology.kubernetes.io/zone: b}"),
			"n1", "NodeAffinity", "node(s) didn't match Pod's node affinity/selector", hard,
		},
		"resources in use": {
			nodes + pod("big", "big", "3", "nodeName: n1") + pod("p", "p", "2", ""),
			"n1", "NodeResourcesFit", "Insufficient cpu", soft,
		},
		"resources beyond the node": {
			nodes + pod("p", "p", "5", ""),
			"n1", "NodeResourcesFit", "Insufficient cpu", hard,
		},
		"ports": {
			nodes + `---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {nodeName: n2, containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]}
`,
			"n2", "NodePorts", "node(s) didn't have free ports for the requested pod ports", soft,
		},
		"anti-affinity": {
			nodes + pod("web", "web", "1", "nodeName: n1") + pod("p", "p", "1", antiAffinity("web", "topology.kubernetes.io/zone")),
			"n2", "InterPodAffinity", "node(s) didn't match pod anti-affinity rules", soft,
		},
		"anti-affinity of the pod that is there": {
			nodes + pod("web", "web", "1", "nodeName: n1, "+antiAffinity("p", "kubernetes.io/hostname")) + pod("p", "p", "1", ""),
			"n1", "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules", soft,
		},
		"affinity": {
			nodes + pod("web", "web", "1", "nodeName: n3") + pod("p", "p", "1", strings.Replace(antiAffinity("web", "topology.kubernetes.io/zone"), "podAnti", "pod", 1)),
			"n1", "InterPodAffinity", "node(s) didn't match pod affinity rules", hard,
		},
		"spread": {
			nodes + pod("a", "p", "1", "nodeName: n1") + pod("p", "p", "1", spread("DoNotSchedule")),
			"n2", "PodTopologySpread", "node(s) didn't match pod topology spread constraints", soft,
		},
		"a claim that is not there": {
			nodes + pod("p", "p", "1", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"),
			"n1", "VolumeRestrictions", `persistentvolumeclaim "data" not found`, hard,
		},
		"a volume of another zone": {
			nodes + claim("b") + pod("p", "p", "1", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"),
			"n1", "VolumeBinding", "node(s) didn't match PersistentVolume's node affinity", hard,
		},
		"attach limit": {
			nodes + claim("a") + `---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: n2}
spec: {drivers: [{name: disk.example.com, nodeID: n2, allocatable: {count: 0}}]}
` + pod("p", "p", "1", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"),
			"n2", "NodeVolumeLimits", "node(s) exceed max volume count", soft,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := of(t, output(t, test.input, "--independent"), "p")
			got := result.node(t, test.node).Filter
			want := &rejection{Plugin: test.plugin, Reasons: []string{test.reason}, Code: test.code}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func antiAffinity(app, key string) string {
	return fmt.Sprintf("affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
		"[{topologyKey: %s, labelSelector: {matchLabels: {app: %s}}}]}}", key, app)
}

func spread(unsatisfiable string) string {
	return "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: " +
		unsatisfiable + ", labelSelector: {matchLabels: {app: p}}}]"
}

// claim is a claim bound to a volume of one zone.
func claim(zone string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: fast
  csi: {driver: disk.example.com, volumeHandle: disk-1}
  claimRef: {namespace: default, name: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [%s]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: fast, volumeName: pv, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`, zone)
}

// LeastAllocated: the mean over CPU and memory of the free share in percent, where a pod without a memory request counts
// 200 MiB; BalancedAllocation: 1 less half the distance of the shares of what is requested.
func TestScoresAreWeightedAndNormalised(t *testing.T) {
	input := nodes + pod("a", "p", "2", "nodeName: n1") + pod("p", "p", "1", spread("ScheduleAnyway"))
	result := of(t, output(t, input), "p")
	for node, want := range map[string]map[string]int64{
		// CPU 3 of 4, memory 400 MiB of 8 GiB: (25+95)/2.
		"n1": {"NodeResourcesFit": 60, "NodeResourcesBalancedAllocation": 62, "PodTopologySpread": 0, "TaintToleration": 300},
		// CPU 1 of 4, memory 200 MiB: (75+97)/2. Zone a has one of two pods' worth, so its score is 0 too.
		"n2": {"NodeResourcesFit": 86, "NodeResourcesBalancedAllocation": 87, "PodTopologySpread": 0, "TaintToleration": 300},
		"n3": {"NodeResourcesFit": 86, "NodeResourcesBalancedAllocation": 87, "PodTopologySpread": 200, "TaintToleration": 300},
	} {
		verdict := result.node(t, node)
		sum := int64(0)
		for _, score := range verdict.Scores {
			sum += score
		}
		if verdict.Total == nil || *verdict.Total != sum {
			t.Errorf("%s: total %v is not the sum %d", node, verdict.Total, sum)
		}
		for plugin, score := range want {
			if verdict.Scores[plugin] != score {
				t.Errorf("%s: %s: got %d, want %d", node, plugin, verdict.Scores[plugin], score)
			}
		}
	}
	if !reflect.DeepEqual(result.Best, []string{"n3"}) || result.chosen() != "n3" {
		t.Errorf("best %v, chosen %s", result.Best, result.chosen())
	}
}

func TestImagesThatAreThereScore(t *testing.T) {
	withImage := strings.Replace(node("n2", "a", ""), "status: {", "status: {images: [{names: [\"i:latest\"], sizeBytes: 1048576000}], ", 1)
	input := node("n1", "a", "") + withImage + pod("p", "p", "1", "")
	result := of(t, output(t, input), "p")
	// 1000 MiB on one of two nodes count half: (500-23)/(1000-23) of 100.
	if got := result.node(t, "n2").Scores["ImageLocality"]; got != 48 {
		t.Errorf("n2: ImageLocality %d", got)
	}
	if got := result.node(t, "n1").Scores["ImageLocality"]; got != 0 {
		t.Errorf("n1: ImageLocality %d", got)
	}
	if result.chosen() != "n2" {
		t.Errorf("chosen %s", result.chosen())
	}
}

func TestTiesGoToTheSmallestNameAndAllAreNamed(t *testing.T) {
	result := of(t, output(t, node("n2", "a", "")+node("n10", "a", "")+pod("p", "p", "1", "")), "p")
	if !reflect.DeepEqual(result.Best, []string{"n10", "n2"}) || result.chosen() != "n10" {
		t.Errorf("best %v, chosen %s", result.Best, result.chosen())
	}
}

func TestCommitLetsPodsSeeThoseBeforeThemAndIndependentDoesNot(t *testing.T) {
	input := node("n1", "a", "") + pod("p1", "p", "3", "") + pod("p2", "p", "3", "")
	committed := of(t, output(t, input), "p2")
	if committed.chosen() != "" || committed.Message != "0/1 nodes are available: 1 Insufficient cpu. "+
		"no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod." {
		t.Errorf("chosen %q: %s", committed.chosen(), committed.Message)
	}
	alone := of(t, output(t, input, "--independent"), "p2")
	if alone.chosen() != "n1" {
		t.Errorf("alone: chosen %q", alone.chosen())
	}
}

func TestPriorityComesBeforeTheOrderOfTheFile(t *testing.T) {
	input := nodes + pod("first", "p", "1", "") + pod("urgent", "p", "1", "priority: 10") + pod("second", "p", "1", "")
	var order []string
	for _, result := range output(t, input) {
		order = append(order, result.Pod)
	}
	if want := []string{"default/urgent", "default/first", "default/second"}; !reflect.DeepEqual(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

func TestPriorityClassesResolve(t *testing.T) {
	class := "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: %d\nglobalDefault: %t\n"
	input := nodes + fmt.Sprintf(class, "high", 1000, false) + fmt.Sprintf(class, "usual", 7, true) +
		pod("a", "p", "1", "priorityClassName: high") + pod("b", "p", "1", "") + pod("c", "p", "1", "priorityClassName: system-node-critical")
	results := output(t, input)
	for name, want := range map[string]int32{"a": 1000, "b": 7, "c": 2000001000} {
		if got := of(t, results, name).Priority; got != want {
			t.Errorf("%s: priority %d, want %d", name, got, want)
		}
	}
}

// Two nodes are full. On n1 one pod of priority 1 makes room, on n2 two of priority 0: the lowest highest victim wins.
func TestPreemptionTakesTheNodeWithTheLowestVictims(t *testing.T) {
	input := node("n1", "a", "") + node("n2", "a", "") +
		pod("one", "one", "4", "nodeName: n1, priority: 1") +
		pod("two", "two", "2", "nodeName: n2, priority: 0") + pod("three", "two", "2", "nodeName: n2, priority: 0") +
		pod("p", "p", "3", "priority: 10")
	results := output(t, input)
	if len(results) != 2 {
		t.Fatalf("%d lines", len(results))
	}
	preempting, bound := results[0], results[1]
	want := &preemption{
		NominatedNode: "n2", Victims: []string{"default/three", "default/two"}, Best: []string{"n2"},
		Candidates: []eviction{{Node: "n1", Victims: []string{"default/one"}}, {Node: "n2", Victims: []string{"default/three", "default/two"}}},
	}
	if preempting.Chosen != nil || !reflect.DeepEqual(preempting.Preemption, want) {
		t.Errorf("chosen %s, preemption %+v, want %+v", preempting.chosen(), preempting.Preemption, want)
	}
	if bound.Attempt != 2 || bound.chosen() != "n2" || bound.Nominated != "n2" {
		t.Errorf("attempt %d: chosen %q, nominated %q", bound.Attempt, bound.chosen(), bound.Nominated)
	}
}

func TestPreemptionSparesMoreImportantPodsAndBudgets(t *testing.T) {
	budget := `---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: kept}
spec: {minAvailable: 1, selector: {matchLabels: {app: kept}}}
status: {disruptionsAllowed: 0}
`
	input := node("n1", "a", "") + budget +
		pod("kept", "kept", "2", "nodeName: n1, priority: 0") + pod("other", "other", "2", "nodeName: n1, priority: 1") +
		pod("p", "p", "2", "priority: 10")
	got := of(t, output(t, input, "--independent"), "p").Preemption
	if got == nil || !reflect.DeepEqual(got.Victims, []string{"default/other"}) {
		t.Errorf("%+v", got)
	}
}

func TestEqualCandidatesForPreemptionAreAllNamed(t *testing.T) {
	victim := func(name, node, start string) string {
		return pod(name, "v", "4", "nodeName: "+node) + "status: {startTime: " + start + "}\n"
	}
	input := nodes +
		victim("v1", "n1", `"2026-01-01T00:00:00Z"`) + victim("v2", "n2", `"2026-01-02T00:00:00Z"`) + victim("v3", "n3", `"2026-01-02T00:00:00Z"`) +
		pod("p", "p", "1", "priority: 10")
	got := of(t, output(t, input, "--independent"), "p").Preemption
	// The latest start wins; that of n2 and n3 is the same.
	if got == nil || got.NominatedNode != "n2" || !reflect.DeepEqual(got.Best, []string{"n2", "n3"}) || len(got.Candidates) != 3 {
		t.Errorf("%+v", got)
	}
}

// The room that was made for a pod is held against equals until its second attempt.
func TestPreemptedRoomIsHeldForThePreemptor(t *testing.T) {
	input := node("n1", "a", "") + pod("victim", "v", "4", "nodeName: n1") +
		pod("preemptor", "p", "3", "priority: 10") + pod("equal", "p", "3", "priority: 10, preemptionPolicy: Never")
	results := output(t, input)
	var order []string
	for _, result := range results {
		order = append(order, fmt.Sprintf("%s %d %s", result.Pod, result.Attempt, result.chosen()))
	}
	want := []string{"default/preemptor 1 ", "default/equal 1 ", "default/preemptor 2 n1"}
	if !reflect.DeepEqual(order, want) {
		t.Errorf("got %q, want %q", order, want)
	}
}

func TestGatedPodsAreNotTried(t *testing.T) {
	result := of(t, output(t, nodes+pod("p", "p", "1", "schedulingGates: [{name: wait}]")), "p")
	if result.Gated == "" || result.Chosen != nil || len(result.Nodes) > 0 {
		t.Errorf("%+v", result)
	}
}

// The claim waits for its first consumer; the only volume is in zone b. Two pods cannot have it on two nodes.
func TestAClaimIsMatchedWithAVolumeWhereThereIsOne(t *testing.T) {
	class := "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: kubernetes.io/no-provisioner\nvolumeBindingMode: WaitForFirstConsumer\n"
	unbound := strings.Replace(strings.Replace(claim("b"), "  claimRef: {namespace: default, name: data}\n", "", 1), "volumeName: pv, ", "", 1)
	other := "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: more}\nspec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
	input := nodes + class + unbound + other +
		pod("p", "p", "1", "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]") +
		pod("q", "q", "1", "volumes: [{name: v, persistentVolumeClaim: {claimName: more}}]")
	results := output(t, input)
	if got := of(t, results, "p"); got.chosen() != "n3" {
		t.Errorf("p: chosen %q: %s", got.chosen(), got.Message)
	}
	second := of(t, results, "q")
	if filter := second.node(t, "n3").Filter; filter == nil || filter.Plugin != "VolumeBinding" {
		t.Errorf("q: the volume that p took is free for q: %+v", second.node(t, "n3"))
	}
	if alone := of(t, output(t, input, "--independent"), "q"); alone.chosen() != "n3" {
		t.Errorf("q alone: chosen %q", alone.chosen())
	}
}

func TestDecisionsOfOthersAreFollowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "follow.json")
	follow := `[{"pod":"default/p1","node":"n2"},{"pod":"default/p3"}]`
	if err := os.WriteFile(file, []byte(follow), 0o600); err != nil {
		t.Fatal(err)
	}
	results := output(t, node("n1", "a", "")+node("n2", "a", "")+pod("p1", "p", "3", "")+pod("p2", "p", "3", "")+pod("p3", "p", "1", "")+pod("p4", "p", "3", ""), "--follow", file)
	if got := of(t, results, "p1"); got.chosen() != "n1" || got.Followed == nil || got.Followed.Node != "n2" {
		t.Errorf("p1: %+v", got)
	}
	// p1 is on n2, so that n1 is free for p2; p3 stayed pending.
	if got := of(t, results, "p2"); got.chosen() != "n1" {
		t.Errorf("p2: chosen %q", got.chosen())
	}
	if got := of(t, results, "p3"); got.Chosen == nil || got.Followed == nil {
		t.Errorf("p3: %+v", got)
	}
}

func TestEvictionsOfOthersAreFollowed(t *testing.T) {
	input := node("n1", "a", "") + node("n2", "a", "") + pod("v1", "v", "4", "nodeName: n1") + pod("v2", "v", "4", "nodeName: n2") + pod("p", "p", "3", "priority: 10")
	for name, follow := range map[string]string{
		"at once":     `[{"pod":"default/p","node":"n2","victims":["default/v2"]}]`,
		"by nominees": `[{"pod":"default/p","nominatedNode":"n2","victims":["default/v2"]},{"pod":"default/p","node":"n2"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "follow.json")
			if err := os.WriteFile(file, []byte(follow), 0o600); err != nil {
				t.Fatal(err)
			}
			results := output(t, input, "--follow", file)
			if results[0].Preemption == nil || results[0].Preemption.NominatedNode != "n1" || results[0].Error != "" {
				t.Errorf("first: %+v", results[0])
			}
			if last := results[len(results)-1]; last.Followed == nil || last.Followed.Node != "n2" || last.Error != "" {
				t.Errorf("last: %+v", last)
			}
		})
	}
}

func TestInputThatCannotBeUsedIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ input, message string }{
		"unknown field":  {strings.Replace(pod("p", "p", "1", ""), "spec: {", "spec: {nodeSelektor: {}, ", 1), `Pod p: unknown field "spec.nodeSelektor"`},
		"no kind":        {"metadata: {name: p}", "expected apiVersion and kind"},
		"no name":        {"apiVersion: v1\nkind: Node\n", "without metadata.name"},
		"twice":          {node("n1", "a", "") + node("n1", "a", ""), "Node n1 is there twice"},
		"priority class": {nodes + pod("p", "p", "1", "priorityClassName: none"), `Pod default/p: spec.priorityClassName: no PriorityClass "none" in the input`},
		"quantity":       {pod("p", "p", "one", ""), "Pod p: "},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cluster.yaml")
			if err := os.WriteFile(file, []byte(test.input), 0o600); err != nil {
				t.Fatal(err)
			}
			var lines, messages bytes.Buffer
			if code := run([]string{"-f", file}, nil, &lines, &messages); code != 2 || !strings.Contains(messages.String(), test.message) {
				t.Errorf("exit code %d: %s", code, messages.String())
			}
		})
	}
	for _, args := range [][]string{{}, {"--batch", "-f", "x"}, {"-f", "x", "--commit", "--independent"}, {"-f", "/nowhere"}, {"--batch", "--workers=0"}, {"--what"}, {"x"}} {
		var lines, messages bytes.Buffer
		if code := run(args, strings.NewReader(""), &lines, &messages); code != 2 || messages.Len() == 0 {
			t.Errorf("%v: exit code %d: %s", args, code, messages.String())
		}
	}
}
