package foundationdb

import (
	"fmt"
	"strings"
	"testing"

	"usher.sh/usher/internal/system/foundationdb/status"
)

// inHalls is a cluster of three data halls, in each of which so many zones have a process for storage and one for logs.
func inHalls(zones int) *view {
	v := &view{Status: &status.Status{}}
	v.Cluster.Configuration.Redundancy = "three_data_hall"
	v.Cluster.Processes = map[string]*status.Process{}
	for hall := 1; hall <= 3; hall++ {
		for zone := range zones {
			for i, class := range []string{"storage", "log"} {
				address := fmt.Sprintf("10.0.%d.%d:%d", hall, zone, 4500+i)
				v.Cluster.Processes[address] = &status.Process{
					Address: address, Class: class, Locality: map[string]string{"zoneid": fmt.Sprintf("h%d-%d", hall, zone), "data_hall": fmt.Sprintf("h%d", hall)},
				}
			}
		}
	}
	return v
}

func TestDataHallsThatAreLeft(t *testing.T) {
	for _, test := range []struct {
		zones  int
		leaves string
		lacks  string
	}{
		{1, "10.0.1.0:4500", "without it 2 data halls may hold data, and 3 are needed: h2, h3"},
		{2, "10.0.1.0:4500", ""},
		{1, "10.0.1.0:4501", "without it 0 data halls may hold log servers in two zones, and 2 are needed: none"},
		{2, "10.0.1.0:4501", ""},
	} {
		v := inHalls(test.zones)
		if lacks := v.zonesLack([]*status.Process{v.Cluster.Processes[test.leaves]}, 3); lacks != test.lacks {
			t.Errorf("%d zones in each, and %s leaves: %q, not %q", test.zones, test.leaves, lacks, test.lacks)
		}
	}
}

// A third of the coordinators is in each data hall: the loss of one leaves a majority.
func TestCoordinatorsInDataHalls(t *testing.T) {
	v := inHalls(4)
	for i := range 9 {
		v.Client.Coordinators.Coordinators = append(v.Client.Coordinators.Coordinators, status.Coordinator{Address: fmt.Sprintf("10.0.%d.%d:4500", 1+i/4, i%4)})
	}
	chosen, err := v.newCoordinators([]*status.Process{v.Cluster.Processes["10.0.1.0:4500"]}, "", nil)
	if err != nil || len(chosen) != 9 {
		t.Fatalf("%v %v", chosen, err)
	}
	for hall := 1; hall <= 3; hall++ {
		if n := strings.Count(strings.Join(chosen, " "), fmt.Sprintf("10.0.%d.", hall)); n != 3 {
			t.Errorf("%d of them are in hall %d: %v", n, hall, chosen)
		}
	}
	for _, p := range v.Cluster.Processes {
		delete(p.Locality, "data_hall")
	}
	if chosen, err := v.newCoordinators(nil, "", nil); err == nil {
		t.Errorf("without data halls: %v", chosen)
	}
}
