package notice

import "testing"

func TestRequesters(t *testing.T) {
	for requester, want := range map[string]struct {
		source Source
		kind   Kind
		is     bool
		leaves bool
	}{
		"ec2.notice.usher.sh/SpotInterruption": {EC2, SpotInterruption, true, true},
		"alertmanager.notice.usher.sh/Problem": {Alertmanager, Problem, true, false},
		"ec2.notice.usher.sh/Rebalance":        {EC2, Rebalance, true, false},
		"ec2.notice.usher.sh/":                 {},
		"notice.usher.sh/Reboot":               {},
		".notice.usher.sh/Reboot":              {},
		"a.b.notice.usher.sh/Reboot":           {},
		"person.usher.sh/Reboot":               {},
		"anotice.usher.sh/Reboot":              {},
	} {
		source, kind, is := Of(requester)
		if source != want.source || kind != want.kind || is != want.is || Leaves(requester) != want.leaves {
			t.Errorf("%s: %q, %q, %v, leaves %v", requester, source, kind, is, Leaves(requester))
		}
		if is && Requester(source, kind) != requester {
			t.Errorf("%s is %s", requester, Requester(source, kind))
		}
	}
}
