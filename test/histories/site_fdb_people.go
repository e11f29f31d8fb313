package histories

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

// editFDB is what an owner of a set of FoundationDB does to it beside.
func (s *setSite) editFDB() {
	w := s.world
	switch w.dice.IntN(7) {
	case 0:
		s.exclude()
	case 1:
		s.include()
	case 2:
		replicas := int32(2 + w.dice.IntN(4))
		w.note("owner: %d log servers", replicas)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Groups[1].Replicas = &replicas })
	case 4:
		size := 1 + w.dice.IntN(2)
		w.note("owner: claims are of %d Gi", size)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) {
			spec.Groups[0].VolumeClaimTemplates[0].Spec = runtime.RawExtension{Raw: fmt.Appendf(nil, `{"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "%dGi"}}}`, size)}
		})
	case 5:
		prefix := []string{"", "x"}[w.dice.IntN(2)]
		w.note("owner: ids begin with %q", prefix)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.IDPrefix = prefix })
	case 6:
		mode := []v1alpha1.MaintenanceMode{v1alpha1.MaintenanceManaged, v1alpha1.MaintenanceNone}[w.dice.IntN(2)]
		w.note("owner: maintenance of zones: %s", mode)
		s.maintained = s.maintained || mode == v1alpha1.MaintenanceManaged
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.UpdateStrategy.Recreate.Maintenance = mode })
	case 3:
		template := []string{plainTemplate, otherTemplate}[w.dice.IntN(2)]
		w.note("owner: the template of log servers is %s", template)
		w.editSet(func(spec *v1alpha1.MemberSetSpec) { spec.Groups[1].Template.Raw = []byte(template) })
	}
}

// exclude is a person who excludes a member: by its id, as Usher does, or by its address.
func (s *setSite) exclude() {
	all := s.members()
	id := all[s.world.dice.IntN(len(all))].pod
	entry := "locality_instance_id:" + id
	if p := s.fdb.Find(id); p != nil && s.world.dice.IntN(2) == 0 {
		entry = p.Address
	}
	if !slices.Contains(s.fdb.Excluded(), entry) {
		s.says("exclude no_wait " + entry)
		s.byHand = append(s.byHand, entry) // an answer may be lost
	}
}

// include is a person who includes what anybody has excluded.
func (s *setSite) include() {
	if all := s.fdb.Excluded(); len(all) > 0 {
		s.says("include " + all[s.world.dice.IntN(len(all))])
	}
}

// includeByHand takes back what people have excluded, and what Usher advises to take back, as far as the database serves.
func (s *setSite) includeByHand() {
	if s.fdb == nil {
		return
	}
	for _, entry := range s.excludedFDB() {
		if s.advised(entry) && !slices.Contains(s.byHand, entry) {
			s.byHand = append(s.byHand, entry)
		}
	}
	s.byHand = slices.DeleteFunc(s.byHand, func(entry string) bool { return s.says("include " + entry) })
}

// advised reports whether Usher advises to take an exclusion back: it leaves that since it may be another client's, or its set waits for the member.
func (s *setSite) advised(entry string) bool {
	if slices.ContainsFunc(s.world.left, func(note string) bool { return strings.Contains(note, "'include "+entry+"'") }) {
		return true
	}
	id, byID := strings.CutPrefix(entry, "locality_instance_id:")
	if p := s.fdb.Find(entry); !byID && p != nil {
		id = p.ID
	}
	set := s.world.set()
	return set != nil && slices.ContainsFunc(set.Status.Blockers, func(b v1alpha1.ReplacementBlocker) bool {
		return b.Reason == string(memberset.MemberExcluded) && strings.HasPrefix(b.Message, "member "+id+" ") && strings.HasPrefix(b.Remedy, "take the exclusion back")
	})
}

// says has a person give fdbcli a command, and reports whether it is accepted.
func (s *setSite) says(command string) bool {
	out, err := s.fdb.Run(context.WithoutCancel(s.world.ctx), s.fdb.ClusterFile(), command)
	accepted := err == nil && !strings.Contains(out.Err, "ERROR")
	s.world.note("owner: fdbcli %s: %t", command, accepted)
	s.world.safety.changed(s.world, accident, command+" by hand")
	return accepted
}
