package memberset

import (
	"fmt"

	"usher.sh/usher/api/v1alpha1"
)

// notOurs is about an object that has a name which the set would give one of its own. Member is the one that it is in the way of; "": it is in the way of all.
func (d *decision) notOurs(kind string, there *Object, member string) Blocker {
	if there.Of != "" {
		return taken(kind, there, member, d.Set)
	}
	return Blocker{
		Reason: NameTaken, Message: fmt.Sprintf("%s %s is there, and was not made for this MemberSet", kind, there.Name),
		Remedy: fmt.Sprintf("delete it, or move what it is for elsewhere (namespace %s)", d.Set.Namespace),
	}
}

// Taken is about an object that could not be made since one of its name is there, which does not carry the set's label: it would have been seen. There is that one;
// nil: what it is of is not known, and nothing is said that would remove it.
func Taken(a *Action, set *v1alpha1.MemberSet, there *Object) Blocker {
	kind, name, resource := "pod", a.Member, "pod"
	switch {
	case a.Claim != nil:
		kind, name, resource = "claim", a.Claim.Name, "pvc"
	case a.Service != nil:
		kind, resource = "Service", "service"
	}
	b := Blocker{Reason: NameTaken, Message: fmt.Sprintf("%s %s is there, and does not carry the label %s=%s", kind, name, v1alpha1.MemberSetLabel, set.Name)}
	switch label := fmt.Sprintf("kubectl label --overwrite %s %s -n %s %s=%s", resource, name, set.Namespace, v1alpha1.MemberSetLabel, set.Name); {
	case there == nil:
		b.Remedy = fmt.Sprintf("see what it is for: kubectl describe %s %s -n %s", resource, name, set.Namespace)
	case there.Of != "":
		return taken(kind, there, a.Member, set)
	case there.Ours:
		b.Remedy = "it was made for this MemberSet: " + label
	default:
		b.Remedy = fmt.Sprintf("where it was made for this set: %s; else delete it, or move what it is for elsewhere", label)
	}
	return b
}

// taken is about an object of another MemberSet, or of another controller, which would make it anew; it stays. A set that has formed its system gets another number by
// having the member replaced, or other names for all its members by another prefix. Before that no member is replaced; and a ConfigMap is not another one later.
func taken(kind string, there *Object, member string, set *v1alpha1.MemberSet) Blocker {
	b := Blocker{
		Reason: NameTaken, Message: fmt.Sprintf("%s %s is of %s, and this set would give its own the same name", kind, there.Name, there.Of),
	}
	const configMap = "spec.system.foundationdb.clusterFile.configMap"
	switch formed := set.Status.Formed != nil; {
	case member == "" && formed:
		b.Remedy = fmt.Sprintf("leave it to %s until that names another (a MemberSet in %s, which takes that it is written anew); both cannot have this one", there.Of, configMap)
	case member == "":
		b.Remedy = fmt.Sprintf("leave it there, and name another ConfigMap for this set, in %s and in its templates; %s", configMap, writtenAnew(set))
	case formed:
		b.Remedy = fmt.Sprintf("leave it there, and have this member get another number: usher replace %s --policy %s -n %s; or set spec.idPrefix, by which all members of this set get other names, and are replaced for it",
			member, set.Name, set.Namespace)
	default:
		b.Remedy = fmt.Sprintf("leave it there, and give this set another name, or another spec.idPrefix; %s", writtenAnew(set))
	}
	return b
}

// writtenAnew is how a set is changed that has not formed its system, which keeps what it has begun with.
func writtenAnew(set *v1alpha1.MemberSet) string {
	return fmt.Sprintf("it has formed no system yet, and is written anew for that: kubectl delete memberset %s -n %s; kubectl delete pvc -n %s -l %s=%s",
		set.Name, set.Namespace, set.Namespace, v1alpha1.MemberSetLabel, set.Name)
}
