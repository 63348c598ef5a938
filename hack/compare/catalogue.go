package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/yaml"
)

// reservedPriceFactor is what Karpenter's AWS provider divides the on-demand price by for a reserved offering.
const reservedPriceFactor = 10_000_000

// unlimited is the availability that the capacity reservations proposal reads as "no count".
const unlimited = 4_294_967_295

// availability of an offering: true, false, or a number of instances.
type availability struct {
	set   bool
	count int64 // -1 where unlimited
}

func (a *availability) UnmarshalJSON(raw []byte) error {
	var flag bool
	if json.Unmarshal(raw, &flag) == nil {
		*a = availability{set: true, count: -1}
		if !flag {
			a.count = 0
		}
		return nil
	}
	var count int64
	if err := json.Unmarshal(raw, &count); err != nil || count < 0 {
		return fmt.Errorf("Available: expected true, false or a count, found %s", raw)
	}
	if count >= unlimited {
		count = -1
	}
	*a = availability{set: true, count: count}
	return nil
}

type offeringEntry struct {
	Price               float64
	Available           availability
	ReservationCapacity *int64
	Requirements        []corev1.NodeSelectorRequirement
}

type typeEntry struct {
	Name             string
	Architecture     string
	OperatingSystems []string
	Resources        corev1.ResourceList
	Offerings        []offeringEntry
}

// offering is one way to buy a type, ready to be turned into Karpenter's own.
type offering struct {
	requirements  scheduling.Requirements
	zone          string
	capacityType  string
	price         float64
	available     bool
	reservationID string // empty unless capacityType is reserved
}

type instanceType struct {
	name         string
	requirements []*scheduling.Requirement
	resources    corev1.ResourceList
	offerings    []offering
}

// catalogue is the instance types and how many instances each reservation still holds.
type catalogue struct {
	types  []instanceType
	counts map[string]int
	total  int
}

// originalWellKnownLabels is what Karpenter itself knows, before any catalogue adds to it.
var originalWellKnownLabels = karpv1.WellKnownLabels.Clone()

func readCatalogue(path string) ([]typeEntry, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 && raw[0] != '[' {
		if raw, err = yaml.YAMLToJSON(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var entries []typeEntry
	if err := json.Unmarshal(raw, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// newCatalogue checks the entries and registers their labels with Karpenter, as a provider does at start-up.
func newCatalogue(entries []typeEntry, keysOfInterest map[string]bool) (*catalogue, error) {
	if len(entries) == 0 {
		return nil, fmt.Errorf("the catalogue is empty")
	}
	idKeys, err := registerLabels(entries, keysOfInterest)
	if err != nil {
		return nil, err
	}
	c := &catalogue{counts: map[string]int{}}
	for _, e := range entries {
		t, err := c.newType(e, idKeys)
		if err != nil {
			return nil, fmt.Errorf("instance type %q: %w", e.Name, err)
		}
		c.types = append(c.types, t)
	}
	for _, n := range c.counts {
		c.total += n
	}
	return c, nil
}

// registerLabels returns the reservation id keys in use, the first of which is Karpenter's ReservationIDLabel.
func registerLabels(entries []typeEntry, keysOfInterest map[string]bool) ([]string, error) {
	used := map[string]bool{}
	hasReserved := false
	known := originalWellKnownLabels.Clone()
	for _, e := range entries {
		for _, o := range e.Offerings {
			for _, r := range o.Requirements {
				used[r.Key] = true
				known.Insert(r.Key)
				if r.Key == karpv1.CapacityTypeLabelKey && len(r.Values) == 1 && r.Values[0] == karpv1.CapacityTypeReserved {
					hasReserved = true
				}
			}
		}
	}
	var idKeys []string
	for _, key := range reservationIDKeys {
		if used[key] || keysOfInterest[key] {
			idKeys = append(idKeys, key)
		}
	}
	if len(idKeys) == 0 && hasReserved {
		idKeys = reservationIDKeys[:1]
	}
	known.Insert(idKeys...)
	karpv1.WellKnownLabels = known
	cloudprovider.ReservationIDLabel = reservationIDKeys[0]
	if len(idKeys) > 0 {
		cloudprovider.ReservationIDLabel = idKeys[0]
	}
	cloudprovider.ReservedCapacityLabels = sets.New(idKeys...)
	return idKeys, nil
}

func (c *catalogue) newType(e typeEntry, idKeys []string) (instanceType, error) {
	if e.Name == "" {
		return instanceType{}, fmt.Errorf("name is missing")
	}
	t := instanceType{name: e.Name, resources: e.Resources.DeepCopy()}
	if len(t.resources) == 0 {
		return t, fmt.Errorf("resources are missing")
	}
	if _, ok := t.resources[corev1.ResourcePods]; !ok {
		t.resources[corev1.ResourcePods] = resource.MustParse("110")
	}
	architecture, systems := e.Architecture, e.OperatingSystems
	if architecture == "" {
		architecture = karpv1.ArchitectureAmd64
	}
	if len(systems) == 0 {
		systems = []string{string(corev1.Linux)}
	}
	t.requirements = []*scheduling.Requirement{
		scheduling.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, e.Name),
		scheduling.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, architecture),
		scheduling.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, systems...),
	}
	onDemand := map[string]float64{}
	for _, o := range e.Offerings {
		if valueOf(o, karpv1.CapacityTypeLabelKey) == karpv1.CapacityTypeOnDemand {
			onDemand[valueOf(o, corev1.LabelTopologyZone)] = o.Price
		}
	}
	for i, o := range e.Offerings {
		made, err := c.newOffering(e.Name, i, o, idKeys, onDemand)
		if err != nil {
			return t, fmt.Errorf("offering %d: %w", i, err)
		}
		t.offerings = append(t.offerings, made)
	}
	return t, nil
}

func valueOf(o offeringEntry, key string) string {
	for _, r := range o.Requirements {
		if r.Key == key && len(r.Values) > 0 {
			return r.Values[0]
		}
	}
	return ""
}

func (c *catalogue) newOffering(typeName string, i int, e offeringEntry, idKeys []string, onDemand map[string]float64) (offering, error) {
	o := offering{
		zone:         valueOf(e, corev1.LabelTopologyZone),
		capacityType: valueOf(e, karpv1.CapacityTypeLabelKey),
		price:        e.Price,
		available:    !e.Available.set || e.Available.count != 0,
		requirements: scheduling.NewRequirements(),
	}
	if o.zone == "" || o.capacityType == "" {
		return o, fmt.Errorf("requirements on %s and %s are needed", corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey)
	}
	if math.IsNaN(o.price) || o.price < 0 {
		return o, fmt.Errorf("Price: expected a number of at least 0, found %v", o.price)
	}
	for _, r := range e.Requirements {
		o.requirements.Add(scheduling.NewRequirement(r.Key, r.Operator, r.Values...))
	}
	if o.capacityType != karpv1.CapacityTypeReserved {
		for _, key := range idKeys {
			o.requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpDoesNotExist))
		}
		return o, nil
	}
	var count int64
	switch {
	case e.ReservationCapacity != nil:
		count = *e.ReservationCapacity
	case e.Available.set && e.Available.count > 0:
		count = e.Available.count
	case !o.available:
	default:
		return o, fmt.Errorf("a reserved offering needs a ReservationCapacity or a count in Available")
	}
	if count < 0 {
		return o, fmt.Errorf("ReservationCapacity: expected a count, found %d", count)
	}
	if !o.available {
		count = 0
	}
	for _, key := range reservationIDKeys {
		if id := valueOf(e, key); id != "" {
			o.reservationID = id
			break
		}
	}
	if o.reservationID == "" {
		o.reservationID = fmt.Sprintf("%s.%s.%d", typeName, o.zone, i)
	}
	for _, key := range idKeys {
		o.requirements[key] = scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, o.reservationID)
	}
	if held, ok := c.counts[o.reservationID]; !ok || held > int(count) {
		c.counts[o.reservationID] = int(count)
	}
	list, ok := onDemand[o.zone]
	if !ok {
		list = o.price
	}
	o.price = min(o.price, list/reservedPriceFactor)
	return o, nil
}

// instanceTypes builds what GetInstanceTypes would answer now: a reservation without a free instance is unavailable.
// Karpenter caches within these objects, so that each loop needs fresh ones.
func (c *catalogue) instanceTypes(counts map[string]int) []*cloudprovider.InstanceType {
	out := make([]*cloudprovider.InstanceType, 0, len(c.types))
	for i := range c.types {
		t := &c.types[i]
		var zones, capacityTypes []string
		offerings := make(cloudprovider.Offerings, 0, len(t.offerings))
		for _, o := range t.offerings {
			made := &cloudprovider.Offering{Requirements: o.requirements, Price: o.price, Available: o.available}
			if o.reservationID != "" {
				made.ReservationCapacity = counts[o.reservationID]
				made.Available = o.available && made.ReservationCapacity > 0
			}
			if made.Available {
				zones = append(zones, o.zone)
				capacityTypes = append(capacityTypes, o.capacityType)
			}
			offerings = append(offerings, made)
		}
		requirements := scheduling.NewRequirements(t.requirements...)
		requirements.Add(
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...),
			scheduling.NewRequirement(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacityTypes...),
		)
		out = append(out, &cloudprovider.InstanceType{
			Name: t.name, Requirements: requirements, Offerings: offerings, Capacity: t.resources,
			Overhead: &cloudprovider.InstanceTypeOverhead{},
		})
	}
	return out
}
