package memberset

import (
	"cmp"
	"fmt"
	"strings"

	"usher.sh/usher/api/v1alpha1"
)

// notBegun is about pods that run where they cannot form a system together. What the set says of them reaches them only as they are made anew.
func notBegun(missing string, file *File, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: SystemNotFormed, Message: "the first members cannot form their system: " + missing,
		Remedy: fmt.Sprintf("keep the pods of spec.groups on different nodes by podAntiAffinity, for which they are made anew, and have enough nodes; where nodes have come since: kubectl delete pod -n %s -l %s=%s. More replicas count once the system is formed: where these are too few, %s",
			set.Namespace, v1alpha1.MemberSetLabel, set.Name, beginAnew(set, file)),
	}
}

// beginAnew is how a set is given up that has not formed its system, with the ConfigMap that was made for it. Another's stays.
func beginAnew(set *v1alpha1.MemberSet, file *File) string {
	deleted := ""
	if file != nil && file.Ours {
		deleted = fmt.Sprintf("; kubectl delete configmap %s -n %s", file.Name, set.Namespace)
	}
	return fmt.Sprintf("and nothing is to be kept: kubectl delete memberset %s -n %s; kubectl delete pvc -n %s -l %s=%s%s; then write the MemberSet anew",
		set.Name, set.Namespace, set.Namespace, v1alpha1.MemberSetLabel, set.Name, deleted)
}

// growsOnceFormed is about members that are asked for beside those that form the system.
func growsOnceFormed(group string, missing int) Blocker {
	return Blocker{
		Reason:  SystemNotFormed,
		Message: fmt.Sprintf("group %s: %d more are asked for than form the system, which is not formed yet; they are made once it is", group, missing),
		Remedy:  "wait; what forming waits for is said beside",
	}
}

// fileRenewed is about a file of which the members that it names have other addresses, before any of them was asked to form the system.
func fileRenewed(set string) Blocker {
	return Blocker{
		Reason: SystemNotFormed, Message: fmt.Sprintf("members that the cluster file of MemberSet %s names have other addresses, before there was a database: the pods of all are made anew, and the file is chosen anew", set),
		Remedy: "wait",
	}
}

// fileLost is the same once they were asked: there may be a database, and it is not found by any other file.
func fileLost(lost []string, file *File, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: SystemNotFormed,
		Message: fmt.Sprintf("the first members were asked to form their system by a cluster file that names %s, which no member has any more: whether there is a database is not known, and the file is not chosen anew",
			strings.Join(lost, ", ")),
		Remedy: "wait, as long as most of those that it names run; where it stays so, " + beginAnew(set, file),
	}
}

func fileOfAnother(key v1alpha1.ConfigMapKey, set *v1alpha1.MemberSet) Blocker {
	return Blocker{
		Reason: NameTaken, Message: fmt.Sprintf("entry %s of ConfigMap %s does not lead to the cluster that the members of this set form", key.Key, key.Name),
		Remedy: fmt.Sprintf("delete the ConfigMap, and it is made anew: kubectl delete configmap %s -n %s", key.Name, set.Namespace),
	}
}

func leadsNot(away []string) Blocker {
	return Blocker{
		Reason: CoordinatorLost, Message: fmt.Sprintf("those that lead to the system at %s cannot be reached, and no pod of the set has these addresses; others take their place", strings.Join(away, ", ")),
		Remedy: "wait",
	}
}

func notFormed(set string) Blocker {
	return Blocker{
		Reason: SystemNotFormed, Message: "fewer members are asked for than form the system, which is not formed yet; waiting until it is",
		Remedy: fmt.Sprintf("set the replicas back; or, where nothing is to be kept, delete MemberSet %s and its claims", set),
	}
}

func forming(id, why string) Blocker {
	return Blocker{
		Reason: SystemNotFormed, Message: fmt.Sprintf("member %s runs, and the first members have not formed their system yet: %s", id, cmp.Or(why, "not all are on its list")),
		Remedy: "do what that says; where it says nothing of a cause, see the logs of the pods",
	}
}
