package openstack

import (
	"context"
	"testing"
	"time"
)

// Nothing is begun in the second half of a call's time.
func TestLate(t *testing.T) {
	began := time.Now()
	if late(t.Context(), began) {
		t.Error("a call without an end is late")
	}
	ctx, cancel := context.WithDeadline(t.Context(), began.Add(time.Hour))
	defer cancel()
	if late(ctx, began) {
		t.Error("a call that has just begun is late")
	}
	if !late(ctx, began.Add(-2*time.Hour)) {
		t.Error("a call that has used two thirds of its time is not late")
	}
}
