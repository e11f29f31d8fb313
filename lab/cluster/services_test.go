package cluster

import "testing"

func TestServicesOfLabsNeverOverlap(t *testing.T) {
	for _, test := range []struct {
		port int
		want string
	}{
		{firstPort, "10.96.0.0/25"},
		{firstPort + 1, "10.96.0.128/25"},
		{firstPort + 2, "10.96.1.0/25"},
		{lastPort - 1, "10.119.111.128/25"},
	} {
		c := &Cluster{ports: ports{APIServer: test.port}}
		if got := c.Services().String(); got != test.want {
			t.Errorf("services of the lab on port %d: got %s, want %s", test.port, got, test.want)
		}
	}
}
