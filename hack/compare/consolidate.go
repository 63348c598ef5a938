package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/awslabs/operatorpkg/object"
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	testv1alpha1 "sigs.k8s.io/karpenter/pkg/test/v1alpha1"
)

// consolidation is how Karpenter's disruption is run on what its scheduler has launched.
type consolidation struct {
	keep       []float64 // the shares of pods that stay, at random, one step after another
	seed       int64
	order      string  // a file with the names of pods, those first that stay longest, in place of the seed's
	dump       string  // a file for the cluster after the pods have gone, for berth plan
	progress   bool    // whether each pass is told on stderr
	maxSeconds float64 // CPU seconds after which no further pass begins; 0 is no limit
}

// pass is one command, as a line of the curve. Evictions and seconds are sums up to it.
type pass struct {
	Step       int     `json:"step"` // of those in which pods go, from 0
	Method     string  `json:"method"`
	Removed    int     `json:"removed"`
	Launched   int     `json:"launched"`
	Nodes      int     `json:"nodes"`
	HourlyCost float64 `json:"hourlyCost"`
	Evictions  int     `json:"evictions"`
	CPUSeconds float64 `json:"cpuSeconds"`
	Seconds    float64 `json:"seconds"`
	Timeouts   int     `json:"timeouts"` // how often a method stopped for want of time, up to it
}

type consolidationReport struct {
	Peer    string  `json:"peer"`
	Pods    int     `json:"pods"`
	Nodes   int     `json:"nodes"`
	Started float64 `json:"startedHourlyCost"`
	Settled bool    `json:"settled"`
	Passes  []pass  `json:"passes"`
	// What the last look took that found nothing, and the stops for want of time with it.
	LastCPUSeconds float64 `json:"lastCPUSeconds"`
	Timeouts       int     `json:"timeouts"`
}

// cpuClock tells the time that this process has computed, so that a timeout means the same on a busy machine.
type cpuClock struct {
	clock.RealClock
	begin time.Time
}

func (c cpuClock) Now() time.Time {
	return c.begin.Add(time.Duration(cpuSeconds() * float64(time.Second)))
}

func (c cpuClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// timeouts counts how often Karpenter's methods stopped for want of time.
func timeouts() int {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0
	}
	count := 0.0
	for _, family := range families {
		if strings.HasSuffix(family.GetName(), "_consolidation_timeouts_total") {
			for _, metric := range family.GetMetric() {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return int(count)
}

// acceptAll stands in for the wait of 15 seconds before a command begins, in which nothing changes here.
type acceptAll struct{}

func (acceptAll) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

// cloud is the provider with a catalogue whose reservations have what is free now.
type cloud struct {
	provider
	catalogue *catalogue
	free      map[string]int
}

func (c *cloud) GetInstanceTypes(context.Context, *karpv1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.catalogue.instanceTypes(c.free), nil
}

func (c *cloud) GetSupportedNodeClasses() []status.Object {
	return []status.Object{&testv1alpha1.TestNodeClass{}}
}

// consolidate plans and launches with Karpenter, takes some of the pods away, and lets Karpenter's disruption work until
// it finds nothing more: emptiness, then several nodes, then one, every budget open and every node consolidatable.
func (w *world) consolidate(ctx context.Context, s settings, c consolidation) (*consolidationReport, error) {
	s.mode, s.reserved = modeStrictLoops, reservedStrict
	planned, err := w.run(ctx, s)
	if err != nil {
		return nil, err
	}
	free := map[string]int{}
	for id, n := range w.catalogue.counts {
		free[id] = n
	}
	launched := map[string]claimReport{}
	for _, claim := range planned.all {
		launched[claim.Name] = claim
		if claim.ReservationID != "" {
			free[claim.ReservationID]--
		}
	}
	group := object.GVK(&testv1alpha1.TestNodeClass{}).GroupKind()
	for _, p := range w.nodePools {
		p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: group.Group, Kind: group.Kind, Name: "default"}
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
		zero := time.Duration(0)
		p.Spec.Disruption.ConsolidateAfter = karpv1.NillableDuration{Duration: &zero}
		p.StatusConditions().SetTrue(karpv1.ConditionTypeValidationSucceeded)
		p.StatusConditions().SetTrue(karpv1.ConditionTypeNodeClassReady)
		p.StatusConditions().SetTrue(status.ConditionReady)
	}
	w.store.nodePools = w.nodePools
	order, err := w.order(c)
	if err != nil {
		return nil, err
	}
	w.scaleDown(order, c.keep[0])
	if c.dump != "" {
		if err := w.dump(c.dump); err != nil {
			return nil, err
		}
	}
	for name := range launched {
		w.manage(name)
	}
	at := &cloud{catalogue: w.catalogue, free: free}
	w.provisioner = provisioning.NewProvisioner(w.store, quietRecorder{}, at, w.cluster, clock.RealClock{}, nil, nil)
	report := &consolidationReport{Peer: version, Nodes: len(launched), Started: costOf(launched)}
	for _, pods := range w.store.byNode {
		report.Pods += len(pods)
	}
	w.clock = cpuClock{begin: time.Now()}
	begin, started := cpuSeconds(), time.Now()
	evictions := 0
	for step, keep := range c.keep {
		w.scaleDown(order, keep)
		report.Settled = false
		for c.maxSeconds == 0 || cpuSeconds()-begin < c.maxSeconds {
			before := cpuSeconds()
			command, err := w.next(ctx, at)
			report.LastCPUSeconds, report.Timeouts = cpuSeconds()-before, timeouts()
			if err != nil {
				return nil, err
			}
			if command == nil {
				report.Settled = true
				break
			}
			moved, err := w.carryOut(ctx, command, launched, free)
			if err != nil {
				return nil, err
			}
			evictions += moved
			report.Passes = append(report.Passes, pass{
				Step:   step,
				Method: command.ConsolidationType(), Removed: len(command.Candidates), Launched: len(command.Replacements),
				Nodes: len(launched), HourlyCost: costOf(launched), Evictions: evictions, CPUSeconds: cpuSeconds() - begin,
				Seconds: time.Since(started).Seconds(), Timeouts: timeouts(),
			})
			if c.progress {
				fmt.Fprintf(os.Stderr, "%+v\n", report.Passes[len(report.Passes)-1])
			}
		}
	}
	return report, nil
}

func costOf(launched map[string]claimReport) float64 {
	cost := 0.0
	for _, claim := range launched {
		cost += claim.Price
	}
	return cost
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	of := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return of(usage.Utime) + of(usage.Stime)
}

// order is the names of pods, the last of which go first.
func (w *world) order(c consolidation) ([]string, error) {
	if c.order == "" {
		return w.shuffled(c.seed), nil
	}
	text, err := os.ReadFile(c.order)
	return strings.Fields(string(text)), err
}

// shuffled is the names of all pods at random, from their names in order, so that a seed always gives the same.
func (w *world) shuffled(seed int64) []string {
	var names []string
	for _, pods := range w.store.byNode {
		for _, p := range pods {
			names = append(names, podName(p))
		}
	}
	slices.Sort(names)
	random := rand.New(rand.NewSource(seed))
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// scaleDown removes all but the first pods of an order, as many as the share says that stays.
func (w *world) scaleDown(order []string, keep float64) {
	gone := map[string]bool{}
	for _, name := range order[int(float64(len(order))*keep):] {
		gone[name] = true
	}
	isGone := func(p *corev1.Pod) bool {
		if gone[podName(p)] {
			namespace, name, _ := strings.Cut(podName(p), "/")
			w.cluster.DeletePod(objectKey(namespace, name))
			return true
		}
		return false
	}
	for node, pods := range w.store.byNode {
		w.store.byNode[node] = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return gone[podName(p)] })
	}
	for namespace, pods := range w.store.byNamespace {
		w.store.byNamespace[namespace] = slices.DeleteFunc(pods, isGone)
	}
}

// dump writes the cluster as a List that berth plan reads: each pod with a controller that would make it anew.
func (w *world) dump(path string) error {
	isController := true
	items := []any{}
	for _, p := range w.nodePools {
		pool := p.DeepCopy()
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
		// Without a status, whose count of nodes would be null.
		items = append(items, map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
			"metadata": map[string]any{"name": pool.Name}, "spec": pool.Spec})
	}
	for _, n := range w.store.nodes {
		node := n.DeepCopy()
		node.APIVersion, node.Kind = "v1", "Node"
		node.UID = ""
		items = append(items, node)
	}
	for _, pods := range w.store.byNode {
		for _, p := range pods {
			pod := p.DeepCopy()
			pod.APIVersion, pod.Kind = "v1", "Pod"
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner-of-" + p.Name,
				UID: p.UID, Controller: &isController}}
			items = append(items, pod)
		}
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o644)
}

// manage gives a node a NodeClaim that is initialized and consolidatable.
func (w *world) manage(name string) {
	node := w.store.nodes[name]
	claim := &karpv1.NodeClaim{}
	claim.Name = name
	claim.Labels = node.Labels
	claim.Status.ProviderID, claim.Status.NodeName = node.Spec.ProviderID, name
	claim.Status.Capacity, claim.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered,
		karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable} {
		claim.StatusConditions().SetTrue(condition)
	}
	w.cluster.UpdateNodeClaim(claim)
}

// next is Karpenter's next command, nil where it has none.
func (w *world) next(ctx context.Context, at *cloud) (*disruption.Command, error) {
	queue := disruption.NewQueue(w.store, quietRecorder{}, w.cluster, clock.RealClock{}, w.provisioner)
	c := disruption.MakeConsolidation(w.clock, w.cluster, w.store, w.provisioner, at, quietRecorder{}, queue)
	accept := disruption.WithValidator(acceptAll{})
	methods := []disruption.Method{
		disruption.NewEmptiness(c, accept), disruption.NewMultiNodeConsolidation(c, accept), disruption.NewSingleNodeConsolidation(c, accept),
	}
	for _, method := range methods {
		candidates, err := disruption.GetCandidates(ctx, w.cluster, w.store, quietRecorder{}, clock.RealClock{}, at,
			method.ShouldDisrupt, method.Class(), queue)
		if err != nil {
			return nil, err
		}
		if len(candidates) == 0 {
			continue
		}
		budgets := map[string]int{}
		for _, p := range w.nodePools {
			budgets[p.Name] = len(w.store.nodes)
		}
		commands, err := method.ComputeCommands(ctx, budgets, candidates...)
		if err != nil {
			return nil, err
		}
		for _, command := range commands {
			if command.Decision() != disruption.NoOpDecision {
				command.Method = method
				return &command, nil
			}
		}
	}
	return nil, nil
}

// carryOut launches a command's replacements, moves the pods where its simulation put them, and removes its nodes. It
// returns how many pods moved.
func (w *world) carryOut(ctx context.Context, command *disruption.Command, launched map[string]claimReport, free map[string]int) (int, error) {
	to := map[string]string{}
	for _, existing := range command.Results.ExistingNodes {
		for _, p := range existing.Pods {
			to[podName(p)] = existing.Name()
		}
	}
	for _, replacement := range command.Replacements {
		chosen, err := choose(replacement.NodeClaim, free)
		if err != nil {
			return 0, err
		}
		if chosen.reservationID != "" {
			free[chosen.reservationID]--
		}
		w.launched++
		name := fmt.Sprintf("%s-again-%05d", replacement.NodePoolName, w.launched)
		if err := w.addNode(ctx, nodeOf(name, replacement.NodeClaim, chosen)); err != nil {
			return 0, err
		}
		w.manage(name)
		launched[name] = claimReport{Name: name, Price: chosen.price, ReservationID: chosen.reservationID}
		for _, p := range replacement.NodeClaim.Pods {
			to[podName(p)] = name
		}
	}
	moved := 0
	for _, candidate := range command.Candidates {
		name := candidate.Name()
		for _, p := range slices.Clone(w.store.byNode[name]) {
			node, isPlaced := to[podName(p)]
			if !isPlaced {
				return moved, errors.New("a pod of " + name + " has no place: " + podName(p))
			}
			w.store.remove(p)
			w.cluster.DeletePod(objectKey(p.Namespace, p.Name))
			if err := w.bind(ctx, p, node); err != nil {
				return moved, err
			}
			moved++
		}
		if id := launched[name].ReservationID; id != "" {
			free[id]++
		}
		delete(launched, name)
		delete(w.store.nodes, name)
		w.cluster.DeleteNodeClaim(name)
		w.cluster.DeleteNode(name)
	}
	w.cluster.MarkUnconsolidated()
	return moved, nil
}
