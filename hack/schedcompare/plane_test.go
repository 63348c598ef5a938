package main

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A PriorityClass that was just created is unknown to the admission of pods for a moment.
func TestARefusalThatPassesIsNotTheLastWord(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, refusal := range map[string]error{
		"forbidden":   apierrors.NewForbidden(pods, "p", errors.New("no PriorityClass with name high was found")),
		"busy":        apierrors.NewTooManyRequestsError("later"),
		"conflict":    apierrors.NewConflict(pods, "p", errors.New("it has changed")),
		"unavailable": apierrors.NewServiceUnavailable("starting"),
	} {
		asked := 0
		err := insist(func() error {
			if asked++; asked < 3 {
				return refusal
			}
			return nil
		})
		if err != nil || asked != 3 {
			t.Errorf("%s: asked %d times: %v", name, asked, err)
		}
	}
	for name, refusal := range map[string]error{
		"invalid":   apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil),
		"not found": apierrors.NewNotFound(pods, "p"),
		"there":     apierrors.NewAlreadyExists(pods, "p"),
	} {
		asked := 0
		if err := insist(func() error { asked++; return refusal }); err == nil || asked != 1 {
			t.Errorf("%s: asked %d times: %v", name, asked, err)
		}
	}
}
