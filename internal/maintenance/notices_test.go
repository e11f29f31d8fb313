package maintenance

import (
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/notice"
)

// noticed is made by a notice.
func noticed(kind notice.Kind) change {
	return func(m *v1alpha1.NodeMaintenance) { m.Spec.Requester = notice.Requester(notice.EC2, kind) }
}

// What takes a node away does not wait until other nodes are back.
func TestNodesThatLeaveWaitForNoRoom(t *testing.T) {
	cases := map[string]decided{
		"a node that goes by itself waits for no room, nor does it wait with others that have none": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", of("n1", "n2"), at("n1", draining, 0)), maintenance("notice", of("n2"), noticed(notice.SpotInterruption)),
			},
			nodes: []*Node{node("n1"), node("n2")},
			want:  []string{"drain n1"},
			steps: []string{"n1 Draining", "n2 Draining"},
		},
		"… also where nothing was done to it, and several have it in work": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", of("n1", "n2"), at("n1", draining, 0), at("n2", draining, 0)), maintenance("notice", of("n2"), at("n2", draining, 0), noticed(notice.SpotInterruption)),
			},
			nodes:  []*Node{node("n1", taken("draining")), node("n2")},
			drains: map[string]*Drain{"n2": unobjected},
			want:   []string{"drain n1", "drain n2"},
			steps:  []string{"n1 Draining", "n2 Draining"},
		},
		"one that stays, and has a problem, waits": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1"), at("n1", draining, 0)), maintenance("notice", of("n2"), noticed(notice.Problem))},
			nodes:        []*Node{node("n1"), node("n2")},
			want:         []string{"drain n1"},
			steps:        []string{"n1 Draining"},
		},
		"one that goes by itself is begun before others, which wait for it": {
			maintenances: []*v1alpha1.NodeMaintenance{maintenance("m", of("n1")), maintenance("notice", of("n2"), noticed(notice.Termination))},
			nodes:        []*Node{node("n1"), node("n2")},
		},
		"one whose notice is suspended has its turn as before": {
			maintenances: []*v1alpha1.NodeMaintenance{
				maintenance("m", of("n1", "n2")), maintenance("notice", of("n2"), noticed(notice.Reboot), suspended),
			},
			nodes: []*Node{node("n1"), node("n2")},
			steps: []string{"n1 Draining"},
		},
	}
	for name, c := range cases {
		t.Run(name, c.check)
	}
}
