package memberset

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.sh/usher/api/v1alpha1"
)

// FileHashAnnotation says on the pods that form a system which file is in the ConfigMap. A kubelet brings a pod's ConfigMaps up to date when the pod has
// changed, and without that once in one to two minutes.
const FileHashAnnotation = "usher.sh/cluster-file-hash"

// FileKind is how a system is found by a file, which its processes keep up to date for themselves. It stands in a ConfigMap that the set makes and keeps.
type FileKind struct {
	// Key names the ConfigMap and the entry.
	Key func(system *v1alpha1.System) v1alpha1.ConfigMapKey
	// Begin writes the file by which the first members form the system, or says what is missing for it.
	Begin func(set *v1alpha1.MemberSet, first []Candidate) (file, missing string)
	// Cluster is the id of the system that a file leads to, which does not change; "": it is no such file.
	Cluster func(file string) string
	// Addresses are the IPs of those by which a file leads to the system.
	Addresses func(file string) []string
}

// Candidate is one of the members that form the system, as its pod runs.
type Candidate struct {
	ID, IP, Zone string
	Group        *v1alpha1.MemberGroup
}

// File is the ConfigMap with the file.
type File struct {
	Object

	Version string // its resource version
	Content string // the entry; "": there is none
}

// forms reports whether the first members form the system together.
func (k *Kind) forms() bool { return k.Lists || k.File != nil }

// begin has the first members form a system that is found by a file: it is written down before it is in the ConfigMap, from which the members take it. That the system
// is asked to begin is written down before it is, too, once nothing else is missing for it. What is there already is not begun again.
func (d *decision) begin() {
	switch {
	case !slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return m.First }):
	case d.renews():
		d.renew()
	case d.status.ClusterFile == "":
		d.choose()
	case d.File == nil || !d.File.Ours || d.File.Content != d.status.ClusterFile:
	case d.List.Unread != "":
		d.hasten()
		d.ask()
	case d.List.Cluster != d.Kind.File.Cluster(d.status.ClusterFile):
		d.block(strangerFound(d.List.Cluster))
	default:
		d.status.Formed = &v1alpha1.MemberSetFormed{Time: d.stamp(), Cluster: d.List.Cluster}
	}
}

// ask has the system be asked to begin.
func (d *decision) ask() {
	switch lost := d.astray(); {
	case d.status.FormRequestTime != nil:
		if len(lost) > 0 {
			d.block(fileLost(lost, d.File, d.Set))
		}
		d.act(Action{Kind: Form})
	case d.List.Formable:
		now := d.stamp()
		d.status.FormRequestTime = &now
	}
}

// astray are the addresses in the file that no first member has any more, as after its pod was made anew. While a pod is there it keeps its own.
func (d *decision) astray() []string {
	if d.status.ClusterFile == "" {
		return nil
	}
	return slices.DeleteFunc(d.Kind.File.Addresses(d.status.ClusterFile), func(ip string) bool {
		return slices.ContainsFunc(d.status.Members, func(m v1alpha1.SetMember) bool { return m.First && d.addressOf(&m) == ip })
	})
}

// renews reports whether the file is chosen anew by which the first members form their system: it leads to none of it any more, and they were never asked to form
// one by it.
func (d *decision) renews() bool {
	if d.Kind.File == nil || d.status.Formed != nil || d.status.FormRequestTime != nil {
		return false
	}
	return len(d.astray()) > 0 || d.status.ClusterFile == "" && d.File != nil && d.File.Ours && d.File.Content != ""
}

// renew goes back to where no file was chosen: the pods of the first members go, then the file from the status, then that in the ConfigMap, and only then they are made
// anew. A pod that is there may have taken the file, and does not take another. Processes may have met by the former file, but none of them keeps anything: a
// database is made by what Form asks for and by nothing else, and only where all first members are found by the one file that it is made by, which those of the
// former one are not.
func (d *decision) renew() {
	d.block(fileRenewed(d.Set.Name))
	there := false
	for i := range d.status.Members {
		m := &d.status.Members[i]
		p := d.pod(m.ID)
		switch {
		case !m.First || p == nil:
			continue
		case p.Terminating:
			d.block(podTerminates(m.ID, d.Set.Namespace))
		default:
			d.act(Action{Kind: DeletePod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version})
		}
		there = true
	}
	if !there {
		d.status.ClusterFile = ""
	}
}

// hasten has the kubelets of the members that form the system bring them the file.
func (d *decision) hasten() {
	hash := sumOf([]byte(d.status.ClusterFile))
	for i := range d.status.Members {
		m := &d.status.Members[i]
		if p := d.pod(m.ID); m.First && p != nil && !p.Terminating && p.Annotations[FileHashAnnotation] != hash {
			d.act(Action{Kind: RelabelPod, Member: m.ID, Name: p.Name, UID: p.UID, Version: p.Version, Annotations: map[string]string{FileHashAnnotation: hash}})
		}
	}
}

// choose writes the file down once all that form the system have addresses.
func (d *decision) choose() {
	var first []Candidate
	for i := range d.status.Members {
		m := &d.status.Members[i]
		p, g := d.pod(m.ID), d.group(m.Group)
		if p == nil || p.IP == "" || p.Terminating || p.Finished || g == nil || d.addressOf(m) == "" { // what it waits for is said with the pod
			return
		}
		first = append(first, Candidate{ID: m.ID, IP: d.addressOf(m), Zone: p.Zone, Group: g.MemberGroup})
	}
	file, missing := d.Kind.File.Begin(d.Set, first)
	if missing != "" {
		d.block(notBegun(missing, d.File, d.Set))
		if d.File != nil && !d.File.Ours {
			d.block(d.notOurs("ConfigMap", &d.File.Object, ""))
		}
		return
	}
	d.status.ClusterFile = file
}

// follow writes down the file that leads to the system now: the newest that it goes by itself.
func (d *decision) follow() {
	if d.Kind.File == nil || d.status.Formed == nil || d.listUnread() != "" || d.List.File == "" || d.Kind.File.Cluster(d.List.File) != d.status.Formed.Cluster {
		return
	}
	d.status.ClusterFile = d.List.File
}

// publish has the ConfigMap hold the file that was written down, or none where that is chosen anew. One that leads to another system is left alone.
func (d *decision) publish() {
	if d.Kind.File == nil || (d.status.ClusterFile == "") != d.renews() {
		return
	}
	key := d.Kind.File.Key(&d.Set.Spec.System)
	switch f := d.File; {
	case f == nil:
		d.act(Action{Kind: MakeFile, ConfigMap: d.newFile(key)})
	case !f.Ours:
		d.block(d.notOurs("ConfigMap", &f.Object, ""))
	case f.Content == d.status.ClusterFile || f.Terminating:
	case f.Content != "" && d.status.ClusterFile != "" && d.Kind.File.Cluster(f.Content) != d.Kind.File.Cluster(d.status.ClusterFile):
		d.block(fileOfAnother(key, d.Set))
	default:
		d.act(Action{Kind: ChangeFile, Name: f.Name, UID: f.UID, Version: f.Version, ConfigMap: d.newFile(key)})
	}
}

// newFile is the ConfigMap. It is not owned by the set: without it the data that outlives the set is not found.
func (d *decision) newFile(key v1alpha1.ConfigMapKey) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Set.Namespace, Name: key.Name, Labels: map[string]string{v1alpha1.MemberSetLabel: d.Set.Name},
			Annotations: map[string]string{SetUIDAnnotation: string(d.Set.UID)},
		},
		Data: map[string]string{key.Key: d.status.ClusterFile},
	}
}

// lead has others lead to the system in the place of those that cannot come back: no pod of the set has their address any more, and no Service of a member.
func (d *decision) lead() {
	if d.status.Formed == nil || d.listUnread() != "" {
		return
	}
	lost := slices.ContainsFunc(d.List.Away, func(ip string) bool {
		return !slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.IP == ip }) &&
			!slices.ContainsFunc(d.Services, func(s Service) bool { return s.Ours && s.IP == ip && d.member(s.Name) != nil })
	})
	if lost {
		d.act(Action{Kind: Lead})
		d.block(leadsNot(d.List.Away))
	}
}

// addressOf is the IP at which others reach a member; "": it has none yet.
func (d *decision) addressOf(m *v1alpha1.SetMember) string {
	if hasService(m) {
		return d.serviceIP(m)
	}
	if p := d.pod(m.ID); p != nil {
		return p.IP
	}
	return ""
}

// serviceIP is that of the Service of a member that is reached there; "": it is not, or has none yet.
func (d *decision) serviceIP(m *v1alpha1.SetMember) string {
	if place := at(d.services, m.ID); place >= 0 && hasService(m) && d.Services[place].Ours {
		return d.Services[place].IP
	}
	return ""
}
