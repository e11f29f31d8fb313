package memberset

import (
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// noProcess is in the hash of what a pod was made of whose configuration starts no process. No container has such a name.
const noProcess = "EmptyConfiguration"

// saysEmpty reports whether a pod says by itself that its configuration is to be empty.
func saysEmpty(p *Pod) bool {
	by, is := p.Annotations[v1alpha1.EmptyConfigurationAnnotation]
	return is && by != bySet
}

// emptyConfiguration is why a member's configuration starts no process: its set names it or all, or its pod says so; "": it starts them all.
func (d *decision) emptyConfiguration(m *v1alpha1.SetMember) string {
	switch {
	case !d.Kind.Configured:
		return ""
	case d.unconfigured.has(m.ID):
		return bySet
	case m.EmptyConfiguration:
		return byPod
	}
	return ""
}

// refuseEmpty blocks where a configuration is to be empty of which there is none.
func (d *decision) refuseEmpty() {
	if d.Kind.Configured {
		return
	}
	if strings.TrimSpace(d.Set.Annotations[v1alpha1.EmptyConfigurationAnnotation]) != "" {
		d.block(notConfigured("memberset", d.Set.Name, d.Set.Namespace, d.Kind.Name))
	}
	for i := range d.status.Members {
		if m := &d.status.Members[i]; m.EmptyConfiguration {
			d.block(notConfigured("pod", m.ID, d.Set.Namespace, d.Kind.Name))
		}
	}
}

// repairOf is the repair of a set's policy: it is off while no member of the set starts (source 002, EmptyMonitorConf). Of which members that is said else, their pods say.
func repairOf(set *v1alpha1.MemberSet, kind *Kind) *v1alpha1.Repair {
	if all := targetsOf(set.Annotations[v1alpha1.EmptyConfigurationAnnotation])["*"]; set.Spec.Repair == nil || !kind.Configured || !all {
		return set.Spec.Repair
	}
	off := set.Spec.Repair.DeepCopy()
	off.Mode = v1alpha1.RepairDisabled
	return off
}
