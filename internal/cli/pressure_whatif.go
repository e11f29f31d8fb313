package cli

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"usher.sh/usher/internal/text"

	"usher.sh/usher/internal/nodepressure"
)

// supposed is how much --what-if says is available.
type supposed struct {
	text     string
	amount   int64
	fraction float64 // of the capacity, where share
	share    bool
}

// readSuppositions reads the values of --what-if.
func readSuppositions(texts []string) (map[nodepressure.Signal]supposed, error) {
	found := map[nodepressure.Signal]supposed{}
	for _, given := range texts {
		name, value, whole := strings.Cut(given, "=")
		s := nodepressure.Signal(name)
		switch {
		case !whole:
			return nil, fmt.Errorf("--what-if %s: give SIGNAL=QUANTITY, as in memory.available=80Mi", given)
		case s.Resource() == "":
			return nil, fmt.Errorf("--what-if %s: there is no signal %q; there are %s", given, name, text.Join(nodepressure.Signals(), ", "))
		}
		if _, twice := found[s]; twice {
			return nil, fmt.Errorf("--what-if %s: %s is supposed twice", given, name)
		}
		amount, err := readAmount(value)
		if err != nil {
			return nil, fmt.Errorf("--what-if %s: %w", given, err)
		}
		found[s] = amount
	}
	return found, nil
}

func readAmount(text string) (supposed, error) {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		number, err := strconv.ParseFloat(percent, 64)
		if err != nil || math.IsNaN(number) || number < 0 || number > 100 {
			return supposed{}, fmt.Errorf("%q is no share: give 0%% to 100%%", text)
		}
		return supposed{text: text, fraction: number / 100, share: true}, nil
	}
	quantity, err := nodepressure.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return supposed{}, fmt.Errorf("%q is no quantity: give bytes, inodes or pids, as 80Mi or 5%%", text)
	}
	return supposed{text: text, amount: quantity.Value()}, nil
}

// suppose returns the node with other readings, taken at a moment.
func suppose(node nodepressure.Node, at time.Time, what map[nodepressure.Signal]supposed) (nodepressure.Node, error) {
	node.Readings = maps.Clone(node.Readings)
	for _, s := range nodepressure.Signals() {
		asked, ok := what[s]
		if !ok {
			continue
		}
		reading, measured := node.Readings[s]
		if !measured {
			return node, fmt.Errorf("--what-if %s=%s: nothing measured %s on node %s, so how much there is of it is not known", s, asked.text, s, node.Name)
		}
		available := asked.amount
		if asked.share {
			available = int64(asked.fraction * float64(reading.Capacity))
		}
		if available > reading.Capacity {
			return node, fmt.Errorf("--what-if %s=%s: node %s has %s in all", s, asked.text, node.Name, s.Amount(reading.Capacity))
		}
		node.Readings[s] = nodepressure.Reading{Available: available, Capacity: reading.Capacity, At: at}
	}
	return node, nil
}
