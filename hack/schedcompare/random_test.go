package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/yaml"
)

type object = map[string]any

// randomCase is a small cluster with a bit of everything that the default profile looks at.
func randomCase(random *rand.Rand) object {
	var items []object
	zones, apps := []string{"a", "b", "c"}, []string{"web", "db", "job"}
	pick := func(from []string) string { return from[random.Intn(len(from))] }
	nodeCount := 2 + random.Intn(8)
	for i := range nodeCount {
		spec := object{}
		switch random.Intn(8) {
		case 0:
			spec["taints"] = []object{{"key": "dedicated", "value": pick(apps), "effect": pick([]string{"NoSchedule", "PreferNoSchedule"})}}
		case 1:
			spec["unschedulable"] = true
		}
		name := fmt.Sprintf("n%d", i)
		items = append(items, object{
			"apiVersion": "v1", "kind": "Node",
			"metadata": object{"name": name, "labels": object{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": pick(zones)}},
			"spec":     spec,
			"status": object{
				"allocatable": object{"cpu": fmt.Sprint(2 + random.Intn(7)), "memory": fmt.Sprintf("%dGi", 4<<random.Intn(3)), "pods": "8"},
				"images":      []object{{"names": []string{pick(apps) + ":1"}, "sizeBytes": 100<<20 + random.Intn(900<<20)}},
			},
		})
	}
	for i := range 4 + random.Intn(16) {
		app, namespace := pick(apps), pick([]string{"default", "default", "other"})
		spec := object{
			"priority": 10 * random.Intn(3),
			"containers": []object{{
				"name": "c", "image": app + ":1",
				"resources": object{"requests": object{"cpu": fmt.Sprintf("%dm", 250*(1+random.Intn(8))), "memory": fmt.Sprintf("%dMi", 256*(1+random.Intn(8)))}},
			}},
		}
		selector := object{"matchLabels": object{"app": pick(apps)}}
		key := pick([]string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"})
		term := object{"topologyKey": key, "labelSelector": selector}
		if random.Intn(3) == 0 {
			term["namespaceSelector"] = object{}
		}
		switch random.Intn(14) {
		case 0:
			spec["nodeSelector"] = object{"topology.kubernetes.io/zone": pick(zones)}
		case 1:
			spec["tolerations"] = []object{{"key": "dedicated", "operator": "Exists"}}
		case 2:
			spec["affinity"] = object{"podAntiAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []object{term}}}
		case 3:
			spec["affinity"] = object{"podAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []object{
				{"weight": 1 + random.Intn(100), "podAffinityTerm": term}}}}
		case 4:
			spec["topologySpreadConstraints"] = []object{{"maxSkew": 1, "topologyKey": key, "labelSelector": selector,
				"whenUnsatisfiable": pick([]string{"DoNotSchedule", "ScheduleAnyway"})}}
		case 5:
			spec["containers"].([]object)[0]["ports"] = []object{{"containerPort": 80, "hostPort": 8000 + random.Intn(2)}}
		case 6:
			// Often of its own app, whose first pod may go anywhere.
			spec["affinity"] = object{"podAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": []object{
				{"topologyKey": key, "labelSelector": object{"matchLabels": object{"app": app}}}}}}
		case 7:
			expression := object{"key": "topology.kubernetes.io/zone", "operator": pick([]string{"In", "NotIn"}), "values": []string{pick(zones)}}
			spec["affinity"] = object{"nodeAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []object{
				{"weight": 1 + random.Intn(100), "preference": object{"matchExpressions": []object{expression}}}}}}
		case 8:
			claim := fmt.Sprintf("data-%d", i)
			items = append(items, boundVolume(claim, namespace, pick(zones))...)
			spec["volumes"] = []object{{"name": "v", "persistentVolumeClaim": object{"claimName": claim}}}
		case 9:
			spec["topologySpreadConstraints"] = []object{{"maxSkew": 1 + random.Intn(2), "topologyKey": "topology.kubernetes.io/zone", "minDomains": 3,
				"labelSelector": object{"matchLabels": object{"app": app}}, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}}
		case 10:
			spec["schedulingGates"] = []object{{"name": "wait"}}
		}
		status := object{}
		if random.Intn(2) == 0 && spec["schedulingGates"] == nil {
			status["startTime"] = fmt.Sprintf("2026-01-01T00:00:%02dZ", i)
			spec["nodeName"] = fmt.Sprintf("n%d", random.Intn(nodeCount))
		}
		items = append(items, object{"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": status,
			"metadata": object{"name": fmt.Sprintf("p%02d", i), "namespace": namespace, "labels": object{"app": app}}})
	}
	// Default spreading is over the pods of a Service.
	items = append(items, object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s", "namespace": "default"},
		"spec": object{"clusterIP": "None", "selector": object{"app": pick(apps)}}})
	items = append(items, object{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": object{"name": "b", "namespace": "default"},
		"spec": object{"selector": object{"matchLabels": object{"app": pick(apps)}}}, "status": object{
			"disruptionsAllowed": random.Intn(2), "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}})
	return object{"kind": "List", "apiVersion": "v1", "items": items}
}

func boundVolume(claim, namespace, zone string) []object {
	expression := object{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []string{zone}}
	modes, size := []string{"ReadWriteOnce"}, object{"storage": "1Gi"}
	return []object{
		{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": "pv-" + claim}, "spec": object{
			"capacity": size, "accessModes": modes, "csi": object{"driver": "disk.example.com", "volumeHandle": claim},
			"claimRef":     object{"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
			"nodeAffinity": object{"required": object{"nodeSelectorTerms": []object{{"matchExpressions": []object{expression}}}}},
		}},
		{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": claim, "namespace": namespace}, "spec": object{
			"volumeName": "pv-" + claim, "accessModes": modes, "resources": object{"requests": size}, "storageClassName": "",
		}},
	}
}

// The steps of a scheduling cycle are taken apart here; put together by kube-scheduler itself they come to the same.
func TestKubeSchedulerItselfChoosesOneOfTheBestOrFailsWithTheSameMessage(t *testing.T) {
	silence()
	random := rand.New(rand.NewSource(1))
	var placed, refused int
	for range 150 {
		text, err := json.Marshal(randomCase(random))
		if err != nil {
			t.Fatal(err)
		}
		input, err := readCase(text)
		if err != nil {
			t.Fatal(err)
		}
		real, err := newScheduler(input)
		if err != nil {
			t.Fatal(err)
		}
		for _, waiting := range queueOf(input) {
			result, err := real.evaluate(context.Background(), waiting.pod)
			if err != nil {
				t.Fatal(err)
			}
			if result.Gated != "" {
				continue // it does not reach a scheduling cycle
			}
			chosen, err := real.SchedulePod(context.Background(), real.framework, framework.NewCycleState(), waiting.pod)
			if unfit, ok := err.(*framework.FitError); ok {
				refused++
				if result.Chosen != nil || !strings.HasPrefix(result.Message, unfit.Error()) {
					t.Errorf("%s: kube-scheduler says %q; got %q and %q", result.Pod, unfit, result.chosen(), result.Message)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			placed++
			if !slices.Contains(result.Best, chosen.SuggestedHost) {
				t.Errorf("%s: kube-scheduler chooses %s; got %v\n%s", result.Pod, chosen.SuggestedHost, result.Best, text)
			}
			if err := real.bind(context.Background(), result, waiting.pod, chosen.SuggestedHost); err != nil {
				t.Fatal(err)
			}
		}
		real.close()
	}
	if placed < 200 || refused < 100 {
		t.Errorf("the cases are too alike: %d placed, %d refused", placed, refused)
	}
}

func TestABatchAnswersEachCaseInOrderAndTheSameEachTime(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	var cases bytes.Buffer
	for i := range 60 {
		text, err := json.Marshal(randomCase(random))
		if err != nil {
			t.Fatal(err)
		}
		if i%20 == 10 {
			text = []byte(`{"kind":"List","items":[{"kind":"Pod"}]}`)
		}
		cases.Write(append(text, '\n'))
	}
	var outputs [2]bytes.Buffer
	for i, workers := range []string{"1", "4"} {
		if code := run([]string{"--batch", "--workers", workers}, bytes.NewReader(cases.Bytes()), &outputs[i], &outputs[i]); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	if !bytes.Equal(outputs[0].Bytes(), outputs[1].Bytes()) {
		t.Error("the answers depend on the number of workers")
	}
	var preempted int
	for i, line := range strings.Split(strings.TrimSpace(outputs[0].String()), "\n") {
		var result caseResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatal(err)
		}
		if bad := i%20 == 10; bad != (result.Error != "") || bad == (len(result.Results) > 0) {
			t.Errorf("case %d: %d results, error %q", i, len(result.Results), result.Error)
		}
		for _, evaluation := range result.Results {
			if evaluation.Error != "" {
				t.Errorf("case %d: %s: %s", i, evaluation.Pod, evaluation.Error)
			}
			if evaluation.Preemption != nil {
				preempted++
			}
		}
	}
	if preempted < 10 {
		t.Errorf("%d preemptions", preempted)
	}
}

func TestTheBenchmarkCountsWhatIsScheduled(t *testing.T) {
	input := node("n1", "a", "") + node("n2", "a", "")
	for i := range 5 {
		input += pod(fmt.Sprintf("p%d", i), "p", "2", "")
	}
	cluster := newCluster()
	for _, document := range strings.Split(input, "---\n")[1:] {
		if err := cluster.add(mustJSON(t, document)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.complete(); err != nil {
		t.Fatal(err)
	}
	measured, err := bench(cluster, 16, 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	if measured.Nodes != 2 || measured.Pods != 5 || measured.Scheduled != 4 || measured.Unschedulable != 1 || measured.Failed != 0 || !measured.Finished {
		t.Errorf("%+v", measured)
	}
	if measured, err = bench(cluster, 16, 100, 1); err != nil || measured.Finished || measured.Pods == 5 {
		t.Errorf("%+v, %v", measured, err)
	}
}

func mustJSON(t *testing.T, document string) []byte {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// This is what makes the oracle one: the bindings, nominations, victims and messages of a real kube-scheduler, in a control
// plane of hack/testenv, are those that are foretold.
func TestARealControlPlaneDoesWhatIsForetold(t *testing.T) {
	build := exec.Command("../testenv/build.sh")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		t.Fatal(err)
	}
	testenv := exec.Command(strings.TrimSpace(string(path)), "start", "--scheduler")
	testenv.Stderr = os.Stderr
	stdin, err := testenv.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := testenv.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := testenv.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_ = testenv.Wait() // it stops by its input
	}()
	var ready struct{ Kubeconfig string }
	if err := json.NewDecoder(stdout).Decode(&ready); err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewSource(3))
	var cases, output, messages bytes.Buffer
	for range 12 {
		text, err := json.Marshal(randomCase(random))
		if err != nil {
			t.Fatal(err)
		}
		cases.Write(append(text, '\n'))
	}
	if code := run([]string{"--batch", "--through", ready.Kubeconfig}, &cases, &output, &messages); code != 0 {
		t.Errorf("exit code %d: %s", code, messages.String())
	}
	var bound, refused, nominated int
	for _, line := range strings.Split(strings.TrimSpace(output.String()), "\n") {
		var result caseResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatal(err)
		}
		if result.Error != "" {
			t.Error(result.Error)
		}
		for _, evaluation := range result.Results {
			switch seen := evaluation.Observed; {
			case seen == nil || evaluation.Error != "":
				t.Errorf("%s was not observed: %s", evaluation.Pod, evaluation.Error)
			case seen.Disagrees != "":
				t.Errorf("%s: %+v", evaluation.Pod, *seen)
			case seen.Nominated != "":
				nominated++
			case seen.Node != "":
				bound++
			default:
				refused++
			}
		}
	}
	t.Logf("%d bound, %d refused, %d nominated; %s", bound, refused, nominated, messages.String())
	if bound < 20 || refused < 3 || nominated < 1 {
		t.Errorf("the cases are too alike: %d bound, %d refused, %d nominated", bound, refused, nominated)
	}
}
