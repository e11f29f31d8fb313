package memberset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/policycache"
	"usher.sh/usher/internal/system"
)

// membersOf are the members of a set with their pods, as its system is asked about them.
func membersOf(set *v1alpha1.MemberSet, pods []corev1.Pod) []system.Member {
	members := make([]system.Member, 0, len(set.Status.Members))
	for i := range set.Status.Members {
		m := &set.Status.Members[i]
		member := system.Member{MemberRef: v1alpha1.MemberRef{ID: m.ID}}
		if at := slices.IndexFunc(set.Spec.Groups, func(g v1alpha1.MemberGroup) bool { return g.Name == m.Group }); at >= 0 {
			member.Role = set.Spec.Groups[at].Role
		}
		if at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == m.ID && metav1.IsControlledBy(&p, set) }); at >= 0 {
			member.PodName, member.PodUID, member.Pod = m.ID, pods[at].UID, policycache.Facts(&pods[at])
		}
		policycache.NoteOfSet(set, &member)
		members = append(members, member)
	}
	return members
}

// member is the one of an action, as its system is asked about it.
func (l *look) member(id string) system.Member {
	at := slices.IndexFunc(l.members, func(m system.Member) bool { return m.ID == id })
	if at < 0 {
		return system.Member{MemberRef: v1alpha1.MemberRef{ID: id}}
	}
	return l.members[at]
}

// address gives those members the IPs of their Services that are reached there.
func (l *look) address() {
	for i := range l.set.Status.Members {
		at := slices.IndexFunc(l.in.Services, func(s memberset.Service) bool { return s.Ours && s.Name == l.set.Status.Members[i].ID })
		if at >= 0 && l.set.Status.Members[i].Shape.AddressFrom == v1alpha1.AddressFromService {
			l.members[i].Address = l.in.Services[at].IP
		}
	}
}
