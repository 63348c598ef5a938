package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

func init() { log.SetLogger(logging.NopLogger) }

const lonelyPods = `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":%d,"template":{
	"metadata":{"labels":{"app":"web"}},"spec":{
	"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[
		{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"web"}}}]}},
	"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}}}`

func offeringJSON(capacityType, zone string, price float64, more string) string {
	return fmt.Sprintf(`{"Price":%g,%s"Requirements":[
		{"key":"karpenter.sh/capacity-type","operator":"In","values":["%s"]},
		{"key":"topology.kubernetes.io/zone","operator":"In","values":["%s"]}]}`, price, more, capacityType, zone)
}

func typeJSON(name, cpu string, offerings ...string) string {
	return fmt.Sprintf(`{"name":"%s","resources":{"cpu":"%s","memory":"8Gi","pods":"10"},"offerings":[%s]}`,
		name, cpu, strings.Join(offerings, ","))
}

// solved answers one batch case or fails the test.
func solved(t *testing.T, mode, reserved, manifests, types string) *report {
	t.Helper()
	line := fmt.Sprintf(`{"mode":%q,"reserved":%q,"manifests":[%s],"instanceTypes":[%s]}`, mode, reserved, manifests, types)
	r, ok := answer(karpenterContext(false), settings{mode: modeOneshot, reserved: reservedStrict, workers: 1, claims: true}, []byte(line)).(*report)
	if !ok {
		raw, _ := json.Marshal(answer(karpenterContext(false), settings{mode: modeOneshot, reserved: reservedStrict}, []byte(line)))
		t.Fatalf("no report: %s", raw)
	}
	return r
}

func TestPodsBeyondTheSlotsWaitForALoop(t *testing.T) {
	types := typeJSON("m", "2", offeringJSON("on-demand", "a", 0.1, ""), offeringJSON("reserved", "a", 0, `"ReservationCapacity":2,`))
	for _, c := range []struct {
		mode, reserved                       string
		placed, waiting, slots, loops, onPay int
	}{
		{modeOneshot, reservedStrict, 2, 3, 2, 1, 0},
		{modeOneshot, reservedFall, 5, 0, 2, 1, 3},
		{modeStrictLoops, reservedStrict, 5, 0, 2, 2, 3},
	} {
		r := solved(t, c.mode, c.reserved, fmt.Sprintf(lonelyPods, 5), types)
		if r.Placed != c.placed || r.Waiting != c.waiting || r.ReservedSlots.Used != c.slots || r.Loops != c.loops {
			t.Errorf("%s %s: placed %d, waiting %d, slots %d, loops %d", c.mode, c.reserved, r.Placed, r.Waiting, r.ReservedSlots.Used, r.Loops)
		}
		if want := 0.1 * float64(c.onPay); r.HourlyCost < want-1e-9 || r.HourlyCost > want+1e-9 {
			t.Errorf("%s %s: cost %v, want %v", c.mode, c.reserved, r.HourlyCost, want)
		}
	}
}

func TestOfEqualReservationsTheFullestIsBookedFirst(t *testing.T) {
	types := typeJSON("m", "2",
		offeringJSON("reserved", "a", 0, `"ReservationCapacity":1,`), offeringJSON("reserved", "b", 0, `"ReservationCapacity":3,`))
	r := solved(t, modeOneshot, reservedStrict, fmt.Sprintf(lonelyPods, 1), types)
	if len(r.Claims) != 1 || r.Claims[0].Zone != "b" {
		t.Errorf("claims %+v", r.Claims)
	}
}

func TestAPodThatSelectsOnDemandTakesNoSlot(t *testing.T) {
	pod := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"nodeSelector":{"karpenter.sh/capacity-type":"on-demand"},
		"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}`
	types := typeJSON("m", "2", offeringJSON("on-demand", "a", 0.1, ""), offeringJSON("reserved", "a", 0, `"ReservationCapacity":2,`))
	if r := solved(t, modeOneshot, reservedStrict, pod, types); r.Placed != 1 || r.ReservedSlots.Used != 0 {
		t.Errorf("placed %d, slots %d", r.Placed, r.ReservedSlots.Used)
	}
}

func TestRunningReplicasAreSubtractedAndTheirNodesAreUsedFirst(t *testing.T) {
	manifests := `{"kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":3,"template":{"spec":{
			"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}}},
		{"kind":"ReplicaSet","metadata":{"name":"web-1","ownerReferences":[{"kind":"Deployment","name":"web","controller":true}]},
			"spec":{"replicas":3,"template":{"spec":{}}}},
		{"kind":"Pod","metadata":{"name":"web-1-a","ownerReferences":[{"kind":"ReplicaSet","name":"web-1","controller":true}]},
			"spec":{"nodeName":"n","containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}},
		{"kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"}}}`
	r := solved(t, modeOneshot, reservedStrict, manifests, typeJSON("m", "2", offeringJSON("on-demand", "a", 0.1, "")))
	if r.Pods != 2 || r.Placed != 2 || r.NodeClaims != 1 || len(r.Nodes) != 1 {
		t.Errorf("pods %d, placed %d, claims %d, nodes %+v", r.Pods, r.Placed, r.NodeClaims, r.Nodes)
	}
}

func TestInputFaultsHaveCodeTwo(t *testing.T) {
	for _, line := range []string{
		`{`,
		`{"manifests":[{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":"x"}}],"instanceTypes":[` + typeJSON("m", "2") + `]}`,
		`{"manifests":[],"instanceTypes":[]}`,
		`{"manifests":[],"instanceTypes":[` + typeJSON("m", "2", offeringJSON("reserved", "a", 0, "")) + `]}`,
	} {
		got, ok := answer(karpenterContext(false), settings{mode: modeOneshot, reserved: reservedStrict}, []byte(line)).(batchError)
		if !ok || got.Code != exitBadInput {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
