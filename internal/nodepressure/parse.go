package nodepressure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with the configuration, in the order of its fields.
func (c Config) Validate() field.ErrorList {
	_, errs := c.parse()
	return errs
}

// Thresholds returns the thresholds that the configuration sets, defaults included, memory first and of two thresholds of
// one signal the hard one. A threshold of 0% or 100% is none; one that is so close to them that it is rounded is one all the
// same, as it is to the kubelet.
func (c Config) Thresholds() ([]Threshold, error) {
	thresholds, errs := c.parse()
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading eviction thresholds: %w", errs.ToAggregate())
	}
	return thresholds, nil
}

// parser gathers what is wrong on the way.
type parser struct{ errs field.ErrorList }

func (c Config) parse() ([]Threshold, field.ErrorList) {
	c = c.withDefaults()
	p := &parser{}
	hard := p.values("evictionHard", c.EvictionHard, thresholdValue)
	soft := p.values("evictionSoft", c.EvictionSoft, thresholdValue)
	graces := p.graces(c.EvictionSoftGracePeriod)
	reclaim := p.values("evictionMinimumReclaim", c.EvictionMinimumReclaim, reclaimValue)
	if c.EvictionPressureTransitionPeriod.Duration < 0 {
		p.fail(field.NewPath("evictionPressureTransitionPeriod"), c.EvictionPressureTransitionPeriod.Duration.String(), "must not be negative")
	}
	p.demandGraces(soft, c.EvictionSoftGracePeriod)

	var out []Threshold
	for signal, below := range hard {
		out = append(out, Threshold{Signal: signal, Below: below, MinReclaim: reclaim[signal]})
		if signal == MemoryAvailable && c.enforcesPods() {
			out = append(out, Threshold{Signal: AllocatableMemoryAvailable, Below: below, MinReclaim: reclaim[signal]})
		}
	}
	for signal, below := range soft {
		out = append(out, Threshold{Signal: signal, Below: below, Grace: graces[signal], MinReclaim: reclaim[signal]})
	}
	sortThresholds(out)
	return out, p.errs
}

func (p *parser) fail(at *field.Path, value, detail string) {
	p.errs = append(p.errs, field.Invalid(at, value, detail))
}

// known reports whether a key is a signal, and says so if it is not.
func (p *parser) known(name, key string) bool {
	if Signal(key).Resource() != "" {
		return true
	}
	p.errs = append(p.errs, field.NotSupported(field.NewPath(name), key, Signals()))
	return false
}

// values reads one field; what is not to be a threshold is left out.
func (p *parser) values(name string, given map[string]string, read func(string) (Value, error)) map[Signal]Value {
	out := map[Signal]Value{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !p.known(name, key) {
			continue
		}
		value, err := read(given[key])
		if err != nil {
			p.fail(field.NewPath(name).Key(key), given[key], err.Error())
			continue
		}
		if !value.IsZero() {
			out[Signal(key)] = value
		}
	}
	return out
}

func (p *parser) graces(given map[string]string) map[Signal]time.Duration {
	const name = "evictionSoftGracePeriod"
	out := map[Signal]time.Duration{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !p.known(name, key) {
			continue
		}
		grace, err := time.ParseDuration(given[key])
		switch {
		case err != nil:
			p.fail(field.NewPath(name).Key(key), given[key], `must be a duration such as "90s" or "2m"`)
		case grace <= 0:
			p.fail(field.NewPath(name).Key(key), given[key], "must be longer than 0; what is to be acted upon at once belongs into evictionHard")
		default:
			out[Signal(key)] = grace
		}
	}
	return out
}

// demandGraces asks for the grace period of every soft threshold.
func (p *parser) demandGraces(soft map[Signal]Value, given map[string]string) {
	for _, signal := range slices.Sorted(maps.Keys(soft)) {
		if _, found := given[string(signal)]; !found {
			at := field.NewPath("evictionSoftGracePeriod").Key(string(signal))
			p.errs = append(p.errs, field.Required(at, "evictionSoft sets a threshold for this signal, and no grace period says how long it may last"))
		}
	}
}

// percentage is a plain decimal number: no sign, no exponent, no NaN.
var percentage = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?%$`)

// fraction reads "15%" as 0.15, as exactly as the kubelet does: what is next to 100% may be 1, what is next to 0% may be 0.
func fraction(s string) (float32, error) {
	if !percentage.MatchString(s) {
		return 0, errors.New(`must be a percentage such as "10%" or "2.5%"`)
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 32)
	if err != nil || f > 100 {
		return 0, errors.New("must not be above 100%")
	}
	return float32(f) / 100, nil
}

// nothing are the percentages that say that there is to be no threshold.
var nothing = regexp.MustCompile(`^(0+|0*100)(\.0+)?%$`)

// thresholdValue reads what a signal is compared with; 0% and 100% are read as nothing.
func thresholdValue(s string) (Value, error) {
	if strings.HasSuffix(s, "%") {
		f, err := fraction(s)
		switch {
		case err != nil || nothing.MatchString(s):
			return Value{}, err
		case f == 0: // a threshold that is never met, and not none
			f = math.SmallestNonzeroFloat32
		}
		return Value{Fraction: f}, nil
	}
	q, err := ParseQuantity(s)
	if err == nil && q.Sign() <= 0 {
		err = errors.New("must be above 0; to have no threshold, write 0%")
	}
	return Value{Quantity: q}, err
}

// reclaimValue reads how much more is to be reclaimed.
func reclaimValue(s string) (Value, error) {
	if strings.HasSuffix(s, "%") {
		f, err := fraction(s)
		if err == nil && f == 0 {
			err = errors.New("must be above 0%; to reclaim nothing more, leave the signal out")
		}
		return Value{Fraction: f}, err
	}
	q, err := ParseQuantity(s)
	if err == nil && q.Sign() < 0 {
		err = errors.New("must not be negative")
	}
	return Value{Quantity: q}, err
}

// immense is a number that takes seconds to compute with: no machine has that much of anything.
var immense = regexp.MustCompile(`[eE][+-]?[0-9]{3}|.{64}`)

// ParseQuantity reads an amount that is not above 2⁶³-1; the error says what it must be, for people.
func ParseQuantity(s string) (resource.Quantity, error) {
	if immense.MatchString(s) {
		return resource.Quantity{}, errors.New("must be a number that fits a machine")
	}
	q, err := resource.ParseQuantity(s)
	switch {
	case err != nil:
		return q, errors.New(`must be a quantity such as "100Mi" or a percentage such as "10%"`)
	case q.CmpInt64(math.MaxInt64) > 0:
		return q, errors.New("must be a number that fits a machine")
	}
	return q, nil
}
