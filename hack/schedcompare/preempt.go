package main

import (
	"context"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	kubepreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// eviction is what it takes to make room for a pod on one node.
type eviction struct {
	Node string `json:"node"`
	// Victims are from the most important to the least.
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

// preemption is the choice among the nodes where evictions make room.
type preemption struct {
	NominatedNode string   `json:"nominatedNode"`
	Victims       []string `json:"victims"`
	// Best are the nodes that kube-scheduler takes any of.
	Best       []string   `json:"best"`
	Candidates []eviction `json:"candidates"`
}

// preempt does what Evaluator.Preempt of kube-scheduler does, up to the choice: it evicts nobody. It returns the message
// of a preemption that does not help, or what went wrong.
func (s *scheduler) preempt(ctx context.Context, state fwk.CycleState, pod *v1.Pod, diagnosis framework.Diagnosis) (_ *preemption, message, failure string) {
	evaluator := s.preemption.Evaluator
	if !s.mayPreempt(ctx, pod, diagnosis) {
		return nil, s.unhelpful(ctx, state, pod, diagnosis), ""
	}
	potential, err := diagnosis.NodeToStatus.NodesForStatusCode(s.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, "", err.Error()
	}
	var candidates []kubepreemption.Candidate
	if len(potential) > 0 {
		budgets, err := evaluator.PdbLister.List(labels.Everything())
		if err != nil {
			return nil, "", err.Error()
		}
		sort.Slice(budgets, func(i, j int) bool { return nameOf(budgets[i]) < nameOf(budgets[j]) })
		candidates, _, err = evaluator.DryRunPreemption(ctx, state, pod, potential, budgets, 0, int32(len(potential)))
		if err != nil && len(candidates) == 0 {
			return nil, "", err.Error()
		}
	}
	if len(candidates) == 0 {
		return nil, s.unhelpful(ctx, state, pod, diagnosis), ""
	}
	sort.Slice(candidates, func(i, j int) bool { return candidates[i].Name() < candidates[j].Name() })
	return s.choose(ctx, candidates), "", ""
}

// mayPreempt tells whether the pod may make others go at all.
func (s *scheduler) mayPreempt(ctx context.Context, pod *v1.Pod, diagnosis framework.Diagnosis) bool {
	may, _ := s.preemption.PodEligibleToPreemptOthers(ctx, pod, diagnosis.NodeToStatus.Get(pod.Status.NominatedNodeName))
	return may
}

// unhelpful is what the plugins say when there is nobody to evict. Where there is, they would at once.
func (s *scheduler) unhelpful(ctx context.Context, state fwk.CycleState, pod *v1.Pod, diagnosis framework.Diagnosis) string {
	_, status := s.framework.RunPostFilterPlugins(ctx, state, pod, diagnosis.NodeToStatus)
	return status.Message()
}

// choose has kube-scheduler select a candidate, finds all that it might as well have selected, and takes the first by name.
func (s *scheduler) choose(ctx context.Context, candidates []kubepreemption.Candidate) *preemption {
	evaluator := s.preemption.Evaluator
	selected := evaluator.SelectCandidate(ctx, candidates)
	chosen := &preemption{}
	for _, candidate := range candidates {
		// The last criterion is the latest start. One that is preferred when its victims start a moment later, and was
		// not selected as they are, is equal in everything.
		equal := candidate.Name() == selected.Name() ||
			evaluator.SelectCandidate(ctx, []kubepreemption.Candidate{selected, later{candidate}}).Name() == candidate.Name()
		listed := eviction{Node: candidate.Name(), PDBViolations: candidate.Victims().NumPDBViolations, Victims: []string{}}
		for _, victim := range candidate.Victims().Pods {
			listed.Victims = append(listed.Victims, nameOf(victim))
		}
		if equal {
			if len(chosen.Best) == 0 {
				chosen.NominatedNode, chosen.Victims = listed.Node, listed.Victims
			}
			chosen.Best = append(chosen.Best, listed.Node)
		}
		chosen.Candidates = append(chosen.Candidates, listed)
	}
	return chosen
}

// later is a candidate whose victims started a nanosecond later.
type later struct{ kubepreemption.Candidate }

func (l later) Victims() *extenderv1.Victims {
	moved := &extenderv1.Victims{NumPDBViolations: l.Candidate.Victims().NumPDBViolations}
	for _, pod := range l.Candidate.Victims().Pods {
		pod = pod.DeepCopy()
		if pod.Status.StartTime != nil {
			pod.Status.StartTime = &metav1.Time{Time: pod.Status.StartTime.Add(time.Nanosecond)}
		}
		moved.Pods = append(moved.Pods, pod)
	}
	return moved
}
