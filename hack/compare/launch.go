package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

// choice is the offering that a claim would be launched with.
type choice struct {
	instanceType  *cloudprovider.InstanceType
	zone          string
	capacityType  string
	reservationID string
	price         float64 // USD per hour; 0 where reserved
	requirements  karpscheduling.Requirements
}

// isPinnedToReserved tells whether the scheduler has bound the claim to reserved capacity.
func isPinnedToReserved(claim *scheduling.NodeClaim) bool {
	r := claim.Requirements.Get(karpv1.CapacityTypeLabelKey)
	return r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 && r.Has(karpv1.CapacityTypeReserved)
}

// choose picks the cheapest available offering that the claim allows. Reserved offerings count only for a claim pinned
// to them; of those that cost the same, the one with the most free slots goes first, as in Karpenter's AWS provider.
// Remaining ties fall to the order of the catalogue.
func choose(claim *scheduling.NodeClaim, free map[string]int) (choice, error) {
	pinned := isPinnedToReserved(claim)
	var best choice
	for _, t := range claim.InstanceTypeOptions {
		for _, o := range t.Offerings {
			isReserved := o.CapacityType() == karpv1.CapacityTypeReserved
			if !o.Available || isReserved != pinned {
				continue
			}
			id := ""
			if isReserved {
				id = o.ReservationID()
				if free[id] <= 0 {
					continue
				}
			}
			if !claim.Requirements.IsCompatible(o.Requirements, karpscheduling.AllowUndefinedWellKnownLabels) {
				continue
			}
			better := best.instanceType == nil || o.Price < best.price ||
				o.Price == best.price && isReserved && free[id] > free[best.reservationID]
			if better {
				best = choice{t, o.Zone(), o.CapacityType(), id, o.Price, o.Requirements}
			}
		}
	}
	if best.instanceType == nil {
		return best, fmt.Errorf("claim of pool %s has no available offering left", claim.NodePoolName)
	}
	if pinned {
		best.price = 0
	}
	return best, nil
}

// nodeOf is the node that a launched claim becomes once it is initialized.
func nodeOf(name string, claim *scheduling.NodeClaim, c choice) *corev1.Node {
	n := &corev1.Node{}
	n.Name = name
	n.Labels = map[string]string{}
	for _, requirements := range []karpscheduling.Requirements{claim.Requirements, c.instanceType.Requirements, c.requirements} {
		for key, r := range requirements {
			if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
				n.Labels[key] = r.Any()
			} else if r.Operator() == corev1.NodeSelectorOpIn && !karpv1.WellKnownLabels.Has(key) {
				n.Labels[key] = r.Any()
			}
		}
	}
	for key, value := range claim.Labels {
		n.Labels[key] = value
	}
	n.Labels[corev1.LabelTopologyZone] = c.zone
	n.Labels[karpv1.CapacityTypeLabelKey] = c.capacityType
	n.Labels[corev1.LabelHostname] = name
	n.Spec.Taints = claim.Spec.Taints
	n.Status.Capacity = c.instanceType.Capacity
	n.Status.Allocatable = c.instanceType.Allocatable()
	return n
}
