package nodepressure

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Value is an amount: a quantity, or, where Fraction is not 0, a share of the capacity.
type Value struct {
	Quantity resource.Quantity `json:"quantity,omitzero"`
	Fraction float32           `json:"fraction,omitempty"` // above 0, up to 1
}

// Of returns the amount for a capacity, in the signal's unit, rounded up.
func (v Value) Of(capacity int64) int64 {
	q := v.of(capacity)
	return q.Value()
}

// of returns the exact amount for a capacity.
func (v Value) of(capacity int64) resource.Quantity {
	if v.Fraction == 0 {
		return v.Quantity
	}
	return *resource.NewQuantity(int64(float64(capacity)*float64(v.Fraction)), resource.BinarySI)
}

// IsZero reports whether the value is nothing.
func (v Value) IsZero() bool { return v.Fraction == 0 && v.Quantity.IsZero() }

// String returns the value as it is written in a configuration.
func (v Value) String() string {
	if v.Fraction == 0 {
		return v.Quantity.String()
	}
	return strconv.FormatFloat(float64(v.Fraction)*100, 'g', 6, 64) + "%"
}

// Threshold says when a signal is too low.
type Threshold struct {
	Signal Signal `json:"signal"`
	// Below: the threshold is met while less than this is available.
	Below Value `json:"below"`
	// Grace is how long it has to be met before it is due; 0: a hard threshold, due at once.
	Grace time.Duration `json:"grace,omitempty"`
	// MinReclaim is how far above Below the signal has to come once the threshold was due.
	MinReclaim Value `json:"minReclaim,omitzero"`
}

// Hard reports whether the threshold is acted upon at once.
func (t Threshold) Hard() bool { return t.Grace == 0 }

// Met reports whether a reading is below the threshold.
func (t Threshold) Met(r Reading) bool {
	limit := t.Below.of(r.Capacity)
	return limit.CmpInt64(r.Available) > 0
}

// MetWithReclaim reports whether a reading is below the threshold and what is to be reclaimed on top of it.
func (t Threshold) MetWithReclaim(r Reading) bool {
	limit := t.Below.of(r.Capacity).DeepCopy()
	limit.Add(t.MinReclaim.of(r.Capacity))
	return limit.CmpInt64(r.Available) > 0
}

// key distinguishes the thresholds of one configuration.
func (t Threshold) key() string { return string(t.Signal) + " " + t.Kind() + " " + t.Below.String() }

// Kind returns "hard" or "soft".
func (t Threshold) Kind() string {
	if t.Hard() {
		return "hard"
	}
	return "soft"
}

// sortThresholds puts memory first, and of two thresholds of one signal the hard one.
func sortThresholds(thresholds []Threshold) {
	slices.SortStableFunc(thresholds, func(a, b Threshold) int {
		return cmp.Or(cmp.Compare(a.Signal.place(), b.Signal.place()), cmp.Compare(a.Grace, b.Grace))
	})
}
