package main

import (
	"math"
	"slices"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

const (
	version          = "sigs.k8s.io/karpenter v1.14.1"
	maxTypesListed   = 60
	maxReasonsListed = 10
)

type seconds struct {
	Load  float64 `json:"load"`  // reading and expanding the input
	Setup float64 `json:"setup"` // cluster copy, volume topology, NewTopology, NewScheduler
	Solve float64 `json:"solve"` // Solve alone
	Total float64 `json:"total"` // setup + solve
	CPU   float64 `json:"cpu"`   // user and system time of setup and solve, over all threads
}

type slots struct {
	Total int `json:"total"`
	Used  int `json:"used"`
}

type claimReport struct {
	Name               string   `json:"name"`
	NodePool           string   `json:"nodePool"`
	InstanceType       string   `json:"instanceType"`
	Zone               string   `json:"zone"`
	CapacityType       string   `json:"capacityType"`
	ReservationID      string   `json:"reservationID,omitempty"`
	Price              float64  `json:"price"`
	InstanceTypes      []string `json:"instanceTypes"`
	InstanceTypesTotal int      `json:"instanceTypesTotal"`
	Pods               []string `json:"pods"`

	Requirements []karpv1.NodeSelectorRequirementWithMinValues `json:"requirements,omitempty"`
}

type nodeReport struct {
	Name string   `json:"name"`
	Pods []string `json:"pods"`
}

type podReport struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// report is the output. Pods = placed + unschedulable + waiting + notReached.
type report struct {
	Peer          string  `json:"peer"`
	Mode          string  `json:"mode"`
	Reserved      string  `json:"reservedMode"`
	Workers       int     `json:"workers"`
	Finished      bool    `json:"finished"`
	Loops         int     `json:"loops"`
	Pods          int     `json:"pods"`
	Placed        int     `json:"placed"`
	Unschedulable int     `json:"unschedulable"`
	Waiting       int     `json:"waiting"`    // left for a later loop because reserved capacity was held back
	NotReached    int     `json:"notReached"` // not tried before --max-seconds
	NodeClaims    int     `json:"nodeClaims"`
	HourlyCost    float64 `json:"hourlyCost"` // USD; claims pinned to reserved cost 0
	ReservedSlots slots   `json:"reservedSlots"`
	Seconds       seconds `json:"seconds"`
	PeakRSSBytes  int64   `json:"peakRSSBytes"`

	UnschedulablePods []podReport   `json:"unschedulablePods,omitempty"`
	WaitingPods       []string      `json:"waitingPods,omitempty"`
	Claims            []claimReport `json:"claims,omitempty"`
	Nodes             []nodeReport  `json:"nodes,omitempty"`

	settings settings
	all      []claimReport
	nodePods map[string][]string
	reasons  map[types.UID]string
	waiting  map[types.UID]bool
	nodeOf   map[string]int // names of launched claims, by index into all
}

func newReport(s settings, w *world) *report {
	return &report{
		Peer: version, Mode: s.mode, Reserved: s.reserved, Workers: s.workers, Finished: true,
		Pods: len(w.pending), ReservedSlots: slots{Total: w.catalogue.total},
		settings: s, nodePods: map[string][]string{}, nodeOf: map[string]int{},
	}
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// placeOnNode notes a pod that joined a node of the input, or a claim launched by an earlier loop.
func (r *report) placeOnNode(node string, p *corev1.Pod) {
	r.Placed++
	if i, ok := r.nodeOf[node]; ok {
		r.all[i].Pods = append(r.all[i].Pods, podName(p))
		return
	}
	r.nodePods[node] = append(r.nodePods[node], podName(p))
}

func (r *report) launch(name string, claim *scheduling.NodeClaim, c choice) {
	r.NodeClaims++
	r.HourlyCost += c.price
	r.Placed += len(claim.Pods)
	r.nodeOf[name] = len(r.all)
	out := claimReport{
		Name: name, NodePool: claim.NodePoolName, InstanceType: c.instanceType.Name, Zone: c.zone,
		CapacityType: c.capacityType, ReservationID: c.reservationID, Price: c.price,
		InstanceTypesTotal: len(claim.InstanceTypeOptions),
	}
	if r.settings.claims {
		for _, t := range claim.InstanceTypeOptions[:min(maxTypesListed, len(claim.InstanceTypeOptions))] {
			out.InstanceTypes = append(out.InstanceTypes, t.Name)
		}
		for _, p := range claim.Pods {
			out.Pods = append(out.Pods, podName(p))
		}
		out.Requirements = claim.Requirements.NodeSelectorRequirements()
		slices.SortFunc(out.Requirements, func(a, b karpv1.NodeSelectorRequirementWithMinValues) int {
			return strings.Compare(a.Key+string(a.Operator), b.Key+string(b.Operator))
		})
	}
	r.all = append(r.all, out)
}

// recordErrors replaces what the last loop knew about pods that are not placed.
func (r *report) recordErrors(left []*corev1.Pod, errors map[*corev1.Pod]error) {
	byUID := make(map[types.UID]error, len(errors))
	for p, err := range errors {
		byUID[p.UID] = err
	}
	r.Waiting, r.NotReached = 0, 0
	r.reasons, r.waiting = map[types.UID]string{}, map[types.UID]bool{}
	for _, p := range left {
		err, tried := byUID[p.UID]
		switch {
		case !tried:
			r.NotReached++
		case scheduling.IsReservedOfferingError(err):
			r.Waiting++
			r.waiting[p.UID] = true
		case r.settings.claims || len(r.reasons) < maxReasonsListed:
			r.reasons[p.UID] = err.Error()
		default:
			r.reasons[p.UID] = ""
		}
	}
}

func (r *report) finish(w *world) {
	for _, p := range w.pending {
		reason, ok := w.rejected[p.UID]
		if !ok {
			reason, ok = r.reasons[p.UID]
		}
		if ok {
			r.Unschedulable++
			if r.settings.claims || len(r.UnschedulablePods) < maxReasonsListed {
				r.UnschedulablePods = append(r.UnschedulablePods, podReport{podName(p), reason})
			}
		}
		if r.waiting[p.UID] && r.settings.claims {
			r.WaitingPods = append(r.WaitingPods, podName(p))
		}
	}
	if r.settings.claims {
		r.Claims = r.all
		for _, c := range r.Claims {
			slices.Sort(c.Pods)
		}
		for name, pods := range r.nodePods {
			slices.Sort(pods)
			r.Nodes = append(r.Nodes, nodeReport{name, pods})
		}
		slices.SortFunc(r.Nodes, func(a, b nodeReport) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
	}
	r.HourlyCost = math.Round(r.HourlyCost*1e9) / 1e9
	r.Seconds.Total = r.Seconds.Setup + r.Seconds.Solve
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		r.PeakRSSBytes = usage.Maxrss * 1024
	}
}
