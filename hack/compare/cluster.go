package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// quietRecorder drops events.
type quietRecorder struct{}

func (quietRecorder) Publish(...events.Event) {}

// provider is all that the scheduler's state asks of a cloud.
type provider struct{ cloudprovider.CloudProvider }

func (provider) Name() string { return "compare" }

// world is one input made ready for Karpenter.
type world struct {
	store       *store
	cluster     *state.Cluster
	provisioner *provisioning.Provisioner
	nodePools   []*karpv1.NodePool
	catalogue   *catalogue
	pending     []*corev1.Pod
	clock       clock.Clock
	launched    int                  // replacements of disruption so far, which names count
	rejected    map[types.UID]string // pods that Karpenter would not provision for, with the reason
}

func karpenterContext(spotToSpot bool) context.Context {
	return options.ToContext(context.Background(), &options.Options{
		CPURequests:       1000,
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true, SpotToSpotConsolidation: spotToSpot},
	})
}

// newWorld checks the input and fills Karpenter's cluster state; an error is the input's fault.
func newWorld(ctx context.Context, m *manifests, entries []typeEntry) (*world, error) {
	c, err := newCatalogue(entries, m.keysOfInterest)
	if err != nil {
		return nil, err
	}
	pools, err := nodePoolsOf(ctx, m)
	if err != nil {
		return nil, err
	}
	pods := m.expandWorkloads()
	m.setClaimDefaults()
	w := &world{store: newStore(m, pods), catalogue: c, nodePools: pools, rejected: map[types.UID]string{}}
	w.cluster = state.NewCluster(clock.RealClock{}, w.store, provider{})
	w.provisioner = provisioning.NewProvisioner(w.store, quietRecorder{}, provider{}, w.cluster, clock.RealClock{}, nil, nil)
	for _, p := range pods {
		switch {
		case p.Spec.NodeName != "":
			p.Status.Phase = corev1.PodRunning
			w.store.addBound(p)
		case isOwnedBy(p, "DaemonSet") || isOwnedBy(p, "Node"):
		default:
			w.pending = append(w.pending, p)
			if len(p.Spec.SchedulingGates) > 0 {
				w.rejected[p.UID] = "scheduling is gated"
			} else if err := w.provisioner.Validate(ctx, p); err != nil {
				w.rejected[p.UID] = err.Error()
			}
		}
	}
	for _, n := range m.nodes {
		if err := w.addNode(ctx, n); err != nil {
			return nil, fmt.Errorf("node %q: %w", n.Name, err)
		}
	}
	for _, n := range m.nodeClaims {
		if n.Status.ProviderID != "" {
			w.cluster.UpdateNodeClaim(n)
		}
	}
	return w, nil
}

func isOwnedBy(p *corev1.Pod, kind string) bool {
	for _, o := range p.OwnerReferences {
		if o.Kind == kind {
			return true
		}
	}
	return false
}

// nodePoolsOf returns the dynamic pools by weight, as the provisioner orders them; without any, one open pool.
func nodePoolsOf(ctx context.Context, m *manifests) ([]*karpv1.NodePool, error) {
	if len(m.nodePools) == 0 {
		in := func(key, value string) karpv1.NodeSelectorRequirementWithMinValues {
			return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
		}
		open := &karpv1.NodePool{}
		open.Name = "default"
		open.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
			in(corev1.LabelArchStable, "amd64"), in(corev1.LabelOSStable, "linux")}
		m.nodePools = append(m.nodePools, open)
	}
	var pools []*karpv1.NodePool
	for _, p := range m.nodePools {
		if p.Spec.Template.Spec.NodeClassRef == nil {
			p.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "berth.sh", Kind: "FakeNodeClass", Name: "default"}
		}
		if err := p.RuntimeValidate(ctx); err != nil {
			return nil, fmt.Errorf("nodepool %q: %w", p.Name, err)
		}
		if p.DeletionTimestamp == nil && !nodepoolutils.IsStatic(p) {
			pools = append(pools, p)
		}
	}
	nodepoolutils.OrderByWeight(pools)
	return pools, nil
}

// addNode makes the node and the pods already bound to it part of the cluster state.
func (w *world) addNode(ctx context.Context, n *corev1.Node) error {
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	if n.Labels[corev1.LabelHostname] == "" {
		n.Labels[corev1.LabelHostname] = n.Name
	}
	if n.Labels[karpv1.NodePoolLabelKey] != "" {
		n.Labels[karpv1.NodeRegisteredLabelKey] = "true"
		n.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	if n.Spec.ProviderID == "" {
		n.Spec.ProviderID = "compare:///" + n.Name
	}
	if n.Spec.Unschedulable {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity
	}
	if n.Status.Capacity == nil {
		n.Status.Capacity = n.Status.Allocatable
	}
	w.store.nodes[n.Name] = n
	if err := w.cluster.UpdateNode(ctx, n); err != nil {
		return err
	}
	for _, p := range w.store.byNode[n.Name] {
		if err := w.cluster.UpdatePod(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// bind places a pending pod on a node of the cluster state.
func (w *world) bind(ctx context.Context, p *corev1.Pod, node string) error {
	bound := p.DeepCopy()
	bound.Spec.NodeName = node
	bound.Status.Phase = corev1.PodRunning
	w.store.addBound(bound)
	if _, ok := w.store.nodes[node]; !ok {
		return nil // counted by addNode
	}
	return w.cluster.UpdatePod(ctx, bound)
}

// newScheduler does what Provisioner.NewScheduler does, on our pools and catalogue.
func (w *world) newScheduler(ctx context.Context, pods []*corev1.Pod, counts map[string]int, opts ...scheduling.Options) (*scheduling.Scheduler, []*corev1.Pod, error) {
	instanceTypes := map[string][]*cloudprovider.InstanceType{}
	for _, p := range w.nodePools {
		instanceTypes[p.Name] = w.catalogue.instanceTypes(counts)
	}
	stateNodes := w.cluster.DeepCopyNodes().Active()
	volumeTopology := scheduling.NewVolumeTopology(w.store)
	volumeRequirements := map[types.UID][]karpscheduling.Requirements{}
	var schedulable []*corev1.Pod
	for _, p := range pods {
		requirements, err := volumeTopology.GetRequirements(ctx, p)
		if err != nil {
			w.rejected[p.UID] = err.Error()
			continue
		}
		if len(requirements) > 0 {
			volumeRequirements[p.UID] = requirements
		}
		schedulable = append(schedulable, p)
	}
	topology, err := scheduling.NewTopology(ctx, w.store, w.cluster, stateNodes, w.nodePools, instanceTypes, schedulable, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("tracking topology counts: %w", err)
	}
	var daemons []*corev1.Pod
	for _, d := range w.store.daemonSets {
		daemons = append(daemons, daemonset.PodForDaemonSet(d))
	}
	return scheduling.NewScheduler(ctx, w.store, w.nodePools, w.cluster, stateNodes, topology, instanceTypes, daemons,
		quietRecorder{}, clock.RealClock{}, volumeRequirements, nil, opts...), schedulable, nil
}

// solveOnce runs one Solve; an expired context leaves a partial result and finished = false.
func solveOnce(ctx context.Context, s *scheduling.Scheduler, pods []*corev1.Pod) (scheduling.Results, bool, error) {
	results, err := s.Solve(ctx, pods)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return results, false, err
	}
	return results.TruncateInstanceTypes(context.WithoutCancel(ctx), scheduling.MaxInstanceTypes), err == nil, nil
}
