package main

import (
	"context"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// rejection is why a node does not do: the first plugin that says so, in the profile's order.
type rejection struct {
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
	// Code is Unschedulable where preemption might help, else UnschedulableAndUnresolvable.
	Code string `json:"code"`
}

// verdict is what the filters and scores say of one node.
type verdict struct {
	Node   string           `json:"node"`
	Filter *rejection       `json:"filter"`
	Scores map[string]int64 `json:"scores,omitempty"`
	Total  *int64           `json:"total,omitempty"`
}

// evaluation is what is said of one pod at one time; a line of the output.
type evaluation struct {
	Pod      string `json:"pod"`
	Priority int32  `json:"priority"`
	// Attempt is 2 or more for a pod whose victims have made room.
	Attempt int       `json:"attempt"`
	Nodes   []verdict `json:"nodes"`
	// Best are the nodes that kube-scheduler draws from, by name.
	Best   []string `json:"best"`
	Chosen *string  `json:"chosen"`
	// Followed is the decision that was carried out instead of Chosen.
	Followed *decision `json:"followed,omitempty"`
	// Observed is what a real kube-scheduler did, with --through.
	Observed *observed `json:"observed,omitempty"`
	// Nominated is the node that was held for the pod and is tried before all others.
	Nominated string `json:"nominated,omitempty"`
	// Gated is why the pod is not queued at all.
	Gated      string      `json:"gated,omitempty"`
	Preemption *preemption `json:"preemption"`
	// Message is kube-scheduler's, as in the pod's condition and event.
	Message string `json:"message,omitempty"`
	// Error is of a plugin that failed rather than refused.
	Error string `json:"error,omitempty"`

	state fwk.CycleState
	// keepsNominated tells that no preemption was tried.
	keepsNominated bool
}

// evaluate asks every filter of every node, and every score of those that pass.
func (s *scheduler) evaluate(ctx context.Context, pod *v1.Pod) (*evaluation, error) {
	if err := s.updateSnapshot(); err != nil {
		return nil, err
	}
	result := &evaluation{Pod: nameOf(pod), Nodes: []verdict{}, Best: []string{}, state: framework.NewCycleState()}
	result.state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	if pod.Spec.Priority != nil {
		result.Priority = *pod.Spec.Priority
	}
	for _, plugin := range s.framework.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); !status.IsSuccess() {
			result.Gated = status.Message()
			return result, nil
		}
	}
	nodes, err := s.snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		result.Message = kubescheduler.ErrNoNodesAvailable.Error()
		return result, nil
	}
	nodes = append([]fwk.NodeInfo(nil), nodes...)
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Node().Name < nodes[j].Node().Name })

	diagnosis, feasible, err := s.filter(ctx, result, pod, nodes)
	if err != nil {
		return nil, err
	}
	if len(feasible) == 0 {
		err := &framework.FitError{Pod: pod, NumAllNodes: len(nodes), Diagnosis: diagnosis}
		result.keepsNominated = !s.mayPreempt(ctx, pod, diagnosis)
		if result.Preemption, err.Diagnosis.PostFilterMsg, result.Error = s.preempt(ctx, result.state, pod, diagnosis); result.Error != "" {
			return result, nil
		}
		result.Message = err.Error()
		return result, nil
	}
	if err := s.score(ctx, result, pod, feasible); err != nil {
		return nil, err
	}
	if nominated := pod.Status.NominatedNodeName; nominated != "" {
		for _, verdict := range result.Nodes {
			if verdict.Node == nominated && verdict.Filter == nil {
				result.Nominated, result.Best = nominated, []string{nominated}
			}
		}
	}
	result.Chosen = &result.Best[0]
	return result, nil
}

// filter writes a verdict on every node, and returns what findNodesThatFitPod of kube-scheduler does: it stops at no
// number of feasible nodes, and looks beyond a nominated one.
func (s *scheduler) filter(ctx context.Context, result *evaluation, pod *v1.Pod, nodes []fwk.NodeInfo) (framework.Diagnosis, []fwk.NodeInfo, error) {
	diagnosis := framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}
	preFilter, status, plugins := s.framework.RunPreFilterPlugins(ctx, result.state, pod)
	diagnosis.UnschedulablePlugins = plugins
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return diagnosis, nil, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.AddPluginStatus(status)
		for _, node := range nodes {
			result.Nodes = append(result.Nodes, verdict{Node: node.Node().Name, Filter: rejected(status, status.Plugin())})
		}
		return diagnosis, nil, nil
	}
	narrowed := strings.Join(sets.List(plugins), ",")
	if !preFilter.AllNodes() {
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"node(s) didn't satisfy plugin(s) ["+strings.Join(sets.List(plugins), " ")+"]"))
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		if !preFilter.AllNodes() && !preFilter.NodeNames.Has(name) {
			result.Nodes = append(result.Nodes, verdict{Node: name, Filter: rejected(diagnosis.NodeToStatus.Get(name), narrowed)})
			continue
		}
		status := s.framework.RunFilterPluginsWithNominatedPods(ctx, result.state, pod, node)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, node)
			result.Nodes = append(result.Nodes, verdict{Node: name})
		case status.IsRejected():
			diagnosis.NodeToStatus.Set(name, status)
			diagnosis.AddPluginStatus(status)
			result.Nodes = append(result.Nodes, verdict{Node: name, Filter: rejected(status, status.Plugin())})
		default:
			return diagnosis, nil, status.AsError()
		}
	}
	return diagnosis, feasible, nil
}

func rejected(status *fwk.Status, plugin string) *rejection {
	return &rejection{Plugin: plugin, Reasons: append([]string{}, status.Reasons()...), Code: status.Code().String()}
}

// score writes the weighted scores of the feasible nodes and which are best. A single one is scored too, which
// kube-scheduler saves itself.
func (s *scheduler) score(ctx context.Context, result *evaluation, pod *v1.Pod, feasible []fwk.NodeInfo) error {
	if status := s.framework.RunPreScorePlugins(ctx, result.state, pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scored, status := s.framework.RunScorePlugins(ctx, result.state, pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	byName := make(map[string]fwk.NodePluginScores, len(scored))
	highest := scored[0].TotalScore
	for _, node := range scored {
		byName[node.Name] = node
		highest = max(highest, node.TotalScore)
	}
	for i := range result.Nodes {
		verdict := &result.Nodes[i]
		node, feasible := byName[verdict.Node]
		if !feasible {
			continue
		}
		verdict.Scores = make(map[string]int64, len(node.Scores))
		for _, score := range node.Scores {
			verdict.Scores[score.Name] = score.Score
		}
		total := node.TotalScore
		verdict.Total = &total
		if total == highest {
			result.Best = append(result.Best, verdict.Node)
		}
	}
	return nil
}
