package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

const (
	modeOneshot     = "oneshot"
	modeStrictLoops = "strict-loops"
	reservedStrict  = "strict"
	reservedFall    = "fallback"
)

// settings of one comparison run.
type settings struct {
	mode       string
	reserved   string // strict, as the provisioner; or fallback, as disruption
	workers    int
	maxSeconds float64 // 0 is no limit
	claims     bool    // list claims and every pod that is not placed
}

func (s settings) options() []scheduling.Options {
	out := []scheduling.Options{
		scheduling.NumConcurrentReconciles(s.workers),
		scheduling.MinValuesPolicy(options.MinValuesPolicyStrict),
	}
	if s.reserved == reservedStrict {
		out = append(out, scheduling.DisableReservedCapacityFallback)
	}
	return out
}

// run solves the input; an error is a failure of the comparison, not an unschedulable pod.
func (w *world) run(ctx context.Context, s settings) (*report, error) {
	if s.maxSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.maxSeconds*float64(time.Second)))
		defer cancel()
	}
	free := make(map[string]int, len(w.catalogue.counts))
	for id, n := range w.catalogue.counts {
		free[id] = n
	}
	r := newReport(s, w)
	todo := make([]*corev1.Pod, 0, len(w.pending))
	for _, p := range w.pending {
		if _, ok := w.rejected[p.UID]; !ok {
			todo = append(todo, p)
		}
	}
	for {
		left, again, err := w.loop(ctx, s, r, free, todo)
		if err != nil {
			return nil, err
		}
		todo = left
		if !again {
			break
		}
	}
	for id, n := range w.catalogue.counts {
		r.ReservedSlots.Used += n - free[id]
	}
	r.finish(w)
	return r, nil
}

// loop is one pass of the provisioner: solve, choose an offering for each claim, book its slot. In strict loops the
// launched claims become nodes with their pods bound. It returns the pods that are left and whether another pass is due.
func (w *world) loop(ctx context.Context, s settings, r *report, free map[string]int, todo []*corev1.Pod) ([]*corev1.Pod, bool, error) {
	r.Loops++
	start, begin := time.Now(), cpuSeconds()
	scheduler, pods, err := w.newScheduler(ctx, todo, free, s.options()...)
	if err != nil {
		return nil, false, err
	}
	ready := time.Now()
	results, finished, err := solveOnce(ctx, scheduler, pods)
	if err != nil {
		return nil, false, err
	}
	r.Seconds.Setup += ready.Sub(start).Seconds()
	r.Seconds.Solve += time.Since(ready).Seconds()
	r.Seconds.CPU += cpuSeconds() - begin
	r.Finished = finished

	byUID := make(map[types.UID]*corev1.Pod, len(pods))
	for _, p := range pods {
		byUID[p.UID] = p
	}
	keep := s.mode == modeStrictLoops && finished
	placed := map[types.UID]bool{}
	for _, existing := range results.ExistingNodes {
		for _, p := range existing.Pods {
			placed[p.UID] = true
			r.placeOnNode(existing.Name(), p)
			if keep {
				if err := w.bind(ctx, byUID[p.UID], existing.Name()); err != nil {
					return nil, false, err
				}
			}
		}
	}
	claims := results.NewNodeClaims
	sort.SliceStable(claims, func(i, j int) bool { return firstUID(claims[i]) < firstUID(claims[j]) })
	for _, claim := range claims {
		c, err := choose(claim, free)
		if err != nil { // the launch would fail, as with fallback in a pool that allows only reserved
			for _, p := range claim.Pods {
				results.PodErrors[p] = err
			}
			continue
		}
		if c.reservationID != "" {
			free[c.reservationID]--
		}
		name := fmt.Sprintf("%s-%05d", claim.NodePoolName, len(r.all)+1)
		r.launch(name, claim, c)
		for _, p := range claim.Pods {
			placed[p.UID] = true
		}
		if keep {
			for _, p := range claim.Pods {
				if err := w.bind(ctx, byUID[p.UID], name); err != nil {
					return nil, false, err
				}
			}
			if err := w.addNode(ctx, nodeOf(name, claim, c)); err != nil {
				return nil, false, err
			}
		}
	}
	var left []*corev1.Pod
	for _, p := range pods {
		if !placed[p.UID] {
			left = append(left, p)
		}
	}
	r.recordErrors(left, results.PodErrors)
	again := keep && r.Waiting > 0 && len(placed) > 0
	return left, again, nil
}

// firstUID orders claims by their earliest pod of the input, so that the output does not depend on map order.
func firstUID(claim *scheduling.NodeClaim) types.UID {
	first := claim.Pods[0].UID
	for _, p := range claim.Pods {
		first = min(first, p.UID)
	}
	return first
}
