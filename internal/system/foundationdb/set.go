package foundationdb

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/text"
)

// firstPort is that of the first process in a pod; further ones have those after it.
const firstPort = 4500

// setKind is how a MemberSet runs FoundationDB: each member has the address of its pod.
func setKind() *memberset.Kind {
	return &memberset.Kind{
		Name: Name, Empties: true, Several: true, Configured: true, AddressFrom: []v1alpha1.AddressSource{v1alpha1.AddressFromPod, v1alpha1.AddressFromService},
		Ports:       ports,
		Replaced:    []string{Name + "-log", Name + "-stateless"}, // source 002, "only for transaction system Pods"
		Environment: environment, Accepts: accepts,
		Maintains: func(g *v1alpha1.MemberGroup) bool { return classOf(g) == "storage" }, // FoundationDB waits for storage servers alone
		File: &memberset.FileKind{
			Key:   func(spec *v1alpha1.System) v1alpha1.ConfigMapKey { return *spec.FoundationDB.ClusterFile.ConfigMap },
			Begin: begin, Cluster: description, Addresses: coordinatorIPs,
		},
	}
}

// classes are those of the processes that a group may run, the best coordinators first.
var classes = []string{"coordinator", "storage", "log", "transaction", "stateless"}

// classOf is the class of a group's processes: the group's name, or else what its role is for; "": neither says.
func classOf(g *v1alpha1.MemberGroup) string {
	for _, class := range []string{g.Name, strings.TrimPrefix(g.Role, Name+"-")} {
		if slices.Contains(classes, class) {
			return class
		}
	}
	return ""
}

// accepts says why members of a group cannot be run.
func accepts(system *v1alpha1.System, g *v1alpha1.MemberGroup) error {
	if version := system.FoundationDB.Version; !byLocality(version) {
		return fmt.Errorf("system.foundationdb.version: %s does not exclude processes by their instance_id without a fault; 7.1.42, 7.3.26 and later ones do", version)
	}
	if classOf(g) == "" {
		return fmt.Errorf("which class its processes are of is said neither by its name nor by its role: name it as one of %s", strings.Join(classes, ", "))
	}
	return acceptsParameters(g.Parameters)
}

// coordinatorsOf is how many coordinators a database of a redundancy has.
var coordinatorsOf = map[v1alpha1.Redundancy]int{v1alpha1.RedundancySingle: 1, v1alpha1.RedundancyDouble: 3, v1alpha1.RedundancyTriple: 5}

// begin writes a first cluster file: the coordinators are in as many zones, the description is that of no other set, and the id that of no other coordinators of the
// set, so that what has met at those is not taken for the same.
func begin(set *v1alpha1.MemberSet, first []memberset.Candidate) (file, missing string) {
	slices.SortStableFunc(first, func(a, b memberset.Candidate) int {
		return cmp.Or(cmp.Compare(slices.Index(classes, classOf(a.Group)), slices.Index(classes, classOf(b.Group))), strings.Compare(a.ID, b.ID))
	})
	need := coordinatorsOf[set.Spec.System.FoundationDB.Redundancy]
	uid := strings.ReplaceAll(string(set.UID), "-", "")
	f := clusterFile{}
	var zones []string
	for i := range first {
		c := &first[i]
		ip, err := netip.ParseAddr(c.IP)
		switch {
		case err != nil || !ip.Is4():
			return "", fmt.Sprintf("the IP of %s is %s, and Usher runs FoundationDB on IPv4", c.ID, text.Name(c.IP))
		case c.Zone == "" || slices.Contains(zones, c.Zone) || len(zones) == need || !slices.Contains(eligible, classOf(c.Group)):
			continue
		}
		f.coordinators, zones = append(f.coordinators, netip.AddrPortFrom(ip, firstPort)), append(zones, c.Zone)
	}
	if len(zones) < need || need == 0 {
		return "", fmt.Sprintf("%d coordinators on as many nodes are needed for redundancy %s, of the classes %s, and there are %d",
			need, set.Spec.System.FoundationDB.Redundancy, strings.Join(eligible, ", "), len(zones))
	}
	id := sha256.Sum256([]byte(fmt.Sprint(uid, f.coordinators)))
	f.name = strings.ReplaceAll(set.Name, "-", "_") + "_" + uid + ":" + hex.EncodeToString(id[:8])
	return f.String(), ""
}

// coordinatorIPs are the IPs of the coordinators that a cluster file names.
func coordinatorIPs(file string) []string {
	f, err := parseClusterFile(file)
	if err != nil {
		return nil
	}
	var ips []string
	for _, a := range f.coordinators {
		ips = append(ips, a.Addr().String())
	}
	return ips
}

// ports are those of the processes in a pod.
func ports(processes int32) []corev1.ServicePort {
	var all []corev1.ServicePort
	for i := range max(processes, 1) {
		port := int32(firstPort) + i
		all = append(all, corev1.ServicePort{Name: fmt.Sprintf("fdb-%d", port), Port: port})
	}
	return all
}

// podAddress is where the kubelet puts the IP of the pod in.
const podAddress = "$(USHER_POD_IP)"

// sections is how many processes fdbmonitor starts.
func sections(start *memberset.Start) int32 {
	if start.Empty {
		return 0
	}
	return max(start.Processes, 1)
}

// environment is fdbmonitor's configuration, in which the kubelet puts the IP and the node of the pod. Lines that are appended to it are of all processes, where there
// are any.
func environment(_ *corev1.PodSpec, _ *v1alpha1.System, start *memberset.Start) []corev1.EnvVar {
	var conf strings.Builder
	conf.WriteString("[general]\nrestart-delay = 5\n")
	for i := range sections(start) {
		fmt.Fprintf(&conf, "[fdbserver.%d]\n", firstPort+int(i))
	}
	conf.WriteString("[fdbserver]\n")
	public, listen := podAddress, "public"
	if start.Address != "" {
		public, listen = start.Address, podAddress+":$ID"
	}
	for _, line := range [][2]string{
		{"command", "/usr/bin/fdbserver"},
		{"cluster-file", "/var/fdb/cluster/fdb.cluster"},
		{"public-address", public + ":$ID"},
		{"listen-address", listen},
		{"datadir", "/var/fdb/data/$ID"},
		{"logdir", "/var/fdb/log"},
		{"class", classOf(start.Group)},
		{"locality-instance_id", start.ID},
		{"locality-zoneid", "$(USHER_NODE_NAME)"},
		{"locality-machineid", "$(USHER_NODE_NAME)"},
	} {
		fmt.Fprintf(&conf, "%s = %s\n", line[0], line[1])
	}
	for _, line := range start.Group.Parameters {
		conf.WriteString(line + "\n")
	}
	return []corev1.EnvVar{
		{Name: "USHER_POD_IP", ValueFrom: field("status.podIP")},
		{Name: "USHER_NODE_NAME", ValueFrom: field("spec.nodeName")},
		{Name: "FDB_MONITOR_CONF", Value: conf.String()},
	}
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}
