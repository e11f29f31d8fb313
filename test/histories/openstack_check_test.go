package histories

import (
	"testing"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/test/openstacksim"
)

// TestMarksOfAPolicyThatIsGone checks when an operator takes the mark of a policy that is gone off a host that is off: only where the step of another one says so.
func TestMarksOfAPolicyThatIsGone(t *testing.T) {
	const (
		host   = "n-nova-0"
		mark   = "): its node is proven off, its servers are evacuated"
		remedy = "; where that one is gone, openstack compute service set --up n-nova-0 nova-compute has this one go on"
		says   = "host n-nova-0 is evacuated for policy db/q already: have one policy be for it" + remedy
	)
	for name, c := range map[string]struct {
		with func(*openStackSite, *v1alpha1.PreparationStatus, *openstacksim.Host)
		want bool
	}{
		"the step says so": {func(*openStackSite, *v1alpha1.PreparationStatus, *openstacksim.Host) {}, true},
		"it was disabled before": {func(_ *openStackSite, _ *v1alpha1.PreparationStatus, h *openstacksim.Host) {
			h.Reason += "; before: its disk is slow"
		}, true},
		"the step says nothing": {func(_ *openStackSite, p *v1alpha1.PreparationStatus, _ *openstacksim.Host) { p.Message = "" }, false},
		"it does not say what to do": {func(_ *openStackSite, p *v1alpha1.PreparationStatus, _ *openstacksim.Host) {
			p.Message = says[:len(says)-len(remedy)]
		}, false},
		"it speaks of another host": {func(_ *openStackSite, p *v1alpha1.PreparationStatus, _ *openstacksim.Host) { p.ID = "n-nova-1" }, false},
		"the mark is the policy's own": {func(_ *openStackSite, _ *v1alpha1.PreparationStatus, h *openstacksim.Host) {
			h.Reason = "Usher (policy db/p" + mark
		}, false},
		"nothing marks it as down": {func(_ *openStackSite, _ *v1alpha1.PreparationStatus, h *openstacksim.Host) { h.Forced = false }, false},
		"it is not proven off": {func(s *openStackSite, _ *v1alpha1.PreparationStatus, _ *openstacksim.Host) {
			s.onHost(host).off = false
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.Context(), 1)
			w.site = newOpenStack(w)
			if err := w.populate(); err != nil {
				t.Fatal(err)
			}
			s := w.openStack()
			s.onHost(host).off = true
			step := v1alpha1.PreparationStatus{MemberRef: v1alpha1.MemberRef{Role: novaRole, ID: host}, For: v1alpha1.ForLost, Message: says}
			s.cloud.ChangeHost(host, func(h *openstacksim.Host) {
				h.Forced, h.Enabled, h.Reason = true, false, "Usher (policy db/q"+mark
				c.with(s, &step, h)
			})
			before := s.cloud.Host(host).Forced
			taken := s.takeMarksOff(&v1alpha1.EvictionPolicy{Status: v1alpha1.EvictionPolicyStatus{Preparations: []v1alpha1.PreparationStatus{step}}})
			if changed := before && !s.cloud.Host(host).Forced; taken != c.want || changed != c.want {
				t.Errorf("taken: %t, the host has changed: %t, want %t", taken, changed, c.want)
			}
		})
	}
}
