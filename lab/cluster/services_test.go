package cluster

import (
	"testing"

	"usher.sh/usher/lab/port"
)

func TestServicesOfLabsNeverOverlap(t *testing.T) {
	for _, test := range []struct {
		number int
		want   string
	}{
		{port.First, "10.96.0.0/25"},
		{port.First + 1, "10.96.0.128/25"},
		{port.First + 2, "10.96.1.0/25"},
		{port.Last - 1, "10.119.111.128/25"},
	} {
		c := &Cluster{ports: ports{APIServer: test.number}}
		if got := c.Services().String(); got != test.want {
			t.Errorf("services of the lab on port %d: got %s, want %s", test.number, got, test.want)
		}
	}
}
