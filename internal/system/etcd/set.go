package etcd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/memberset"
)

// The ports of etcd's own documentation.
const clientPort, peerPort = 2379, 2380

// setKind is how a MemberSet runs etcd: each member has a Service, whose name is its address.
func setKind() *memberset.Kind {
	return &memberset.Kind{
		Name: "etcd", Lists: true, LostFirst: true, Addresses: peerURLs, Environment: environment, Refuses: overrides, AddressFrom: []v1alpha1.AddressSource{v1alpha1.AddressFromService},
		Ports: func(int32) []corev1.ServicePort {
			return []corev1.ServicePort{
				{Name: "client", Port: clientPort, TargetPort: intstr.FromInt32(clientPort), Protocol: corev1.ProtocolTCP},
				{Name: "peer", Port: peerPort, TargetPort: intstr.FromInt32(peerPort), Protocol: corev1.ProtocolTCP},
			}
		},
	}
}

// peerURLs are encrypted where the template says how: by a certificate for peers.
func peerURLs(template *corev1.PodSpec, id, namespace string) []string {
	return []string{memberURL(peerScheme(template), id, namespace, peerPort)}
}

func memberURL(scheme, id, namespace string, port int) string {
	return fmt.Sprintf("%s://%s.%s.svc:%d", scheme, id, namespace, port)
}

// peerScheme is https where etcd is given a certificate for its peers, or makes one.
func peerScheme(template *corev1.PodSpec) string {
	for i := range template.Containers {
		c := &template.Containers[i]
		byVariable := slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "ETCD_PEER_CERT_FILE" || v.Name == "ETCD_PEER_AUTO_TLS" })
		given := strings.Join(append(slices.Clone(c.Command), c.Args...), " ")
		if byVariable || strings.Contains(given, "--peer-cert-file") || strings.Contains(given, "--peer-auto-tls") {
			return "https"
		}
	}
	return "http"
}

// clientScheme is that by which Usher itself asks.
func clientScheme(spec *v1alpha1.System) string {
	if spec.Etcd == nil {
		return "https"
	}
	if s := spec.Etcd.Service; s != nil {
		return s.Scheme
	}
	if slices.ContainsFunc(spec.Etcd.Endpoints, func(e string) bool { return !strings.HasPrefix(e, "https://") }) {
		return "http"
	}
	return "https"
}

// environment is what etcd reads where its flags do not say. With data on its disk it takes its peers from there.
func environment(template *corev1.PodSpec, spec *v1alpha1.System, start *memberset.Start) []corev1.EnvVar {
	state := existing
	if start.First {
		state = "new"
	}
	var peers []string
	for _, p := range start.Peers {
		for _, address := range p.Addresses {
			peers = append(peers, p.ID+"="+address)
		}
	}
	client, peer := clientScheme(spec), peerScheme(template)
	var env []corev1.EnvVar
	for _, v := range [][2]string{
		{"ETCD_NAME", start.ID},
		{"ETCD_INITIAL_CLUSTER", strings.Join(peers, ",")},
		{"ETCD_INITIAL_CLUSTER_STATE", state},
		{"ETCD_INITIAL_CLUSTER_TOKEN", string(start.Set)},
		{"ETCD_INITIAL_ADVERTISE_PEER_URLS", memberURL(peer, start.ID, start.Namespace, peerPort)},
		{"ETCD_LISTEN_PEER_URLS", fmt.Sprintf("%s://0.0.0.0:%d", peer, peerPort)},
		{"ETCD_ADVERTISE_CLIENT_URLS", memberURL(client, start.ID, start.Namespace, clientPort)},
		{"ETCD_LISTEN_CLIENT_URLS", fmt.Sprintf("%s://0.0.0.0:%d", client, clientPort)},
	} {
		env = append(env, corev1.EnvVar{Name: v[0], Value: v[1]})
	}
	return env
}
