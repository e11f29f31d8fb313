package nodes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Object returns a simulated node of 8 CPUs, 32 GiB and 110 pods in the zone (which may be empty).
func Object(name, zone string) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyRegion: "lab",
	}
	if zone != "" {
		labels[corev1.LabelTopologyZone] = zone
	}
	annotations := map[string]string{
		simulated: "fake",
		// As a kubelet does: leaves attaching volumes to the controller-manager.
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Status: corev1.NodeStatus{
			Capacity:    amounts("8", "32Gi"),
			Allocatable: amounts("7800m", "30Gi"),
			Addresses:   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo:    corev1.NodeSystemInfo{BootID: "boot-1"},
		},
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse(cpu),
		corev1.ResourceMemory:           resource.MustParse(memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

// Objects returns n simulated nodes named <prefix>-1 and so on, dealt out over the zones in turn.
func Objects(prefix string, n int, zones ...string) []*corev1.Node {
	list := make([]*corev1.Node, n)
	for i := range list {
		zone := ""
		if len(zones) > 0 {
			zone = zones[i%len(zones)]
		}
		list[i] = Object(fmt.Sprintf("%s-%d", prefix, i+1), zone)
	}
	return list
}

// Zones returns the names of n zones: zone-a, zone-b and so on; n is at most 26.
func Zones(n int) []string {
	zones := make([]string, n)
	for i := range zones {
		zones[i] = "zone-" + string(rune('a'+i))
	}
	return zones
}
