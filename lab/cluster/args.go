package cluster

import (
	"cmp"
	"fmt"
	"time"
)

// EtcdURL is the address of the etcd that the apiserver keeps everything in.
func (c *Cluster) EtcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.ports.EtcdClient) }

func (c *Cluster) etcdArgs() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.EtcdPeer)
	return []string{
		"--name=lab",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + c.EtcdURL(),
		"--advertise-client-urls=" + c.EtcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=lab=" + peer,
		// A lab is thrown away; what a power cut would lose is no loss, and starting is several times as fast.
		"--unsafe-no-fsync=true",
		"--log-level=warn",
	}
}

func (c *Cluster) apiserverArgs() []string {
	args := []string{
		"--etcd-servers=" + c.EtcdURL(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.APIServer),
		// The endpoint of the service "kubernetes" may not be on loopback. Package serviceproxy knows where it leads.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + c.Services().String(),
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--kubelet-client-certificate=" + c.path("apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + c.path("apiserver-kubelet-client.key"),
		// The names of real nodes mean nothing to the host's resolver.
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("service-accounts.key"),
		"--service-account-signing-key-file=" + c.path("service-accounts.key"),
		// Without it, watches keep an apiserver that was asked to end for a minute.
		"--shutdown-watch-termination-grace-period=1s",
		"--audit-policy-file=" + c.path("audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-mode=blocking",
		// Never rotated: requests are counted from this one file.
		"--audit-log-maxsize=100000",
	}
	if c.EvictionRequestAPI {
		args = append(args, gate, "--runtime-config=lifecycle.k8s.io/v1alpha1=true")
	}
	return args
}

const gate = "--feature-gates=EvictionRequestAPI=true"

func (c *Cluster) controllerManagerArgs() []string {
	args := []string{
		"--kubeconfig=" + c.path("kube-controller-manager.kubeconfig"),
		"--service-account-private-key-file=" + c.path("service-accounts.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		// As real clusters have it: every controller is a user of its own.
		"--use-service-account-credentials=true",
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		// No node is lost because an apiserver takes a minute to come back, and no lease is renewed meanwhile.
		"--node-monitor-grace-period=" + cmp.Or(c.NodeGrace, 5*time.Minute).String(),
	}
	if c.EvictionRequestAPI {
		args = append(args, gate)
	}
	return args
}

func (c *Cluster) schedulerArgs() []string {
	return []string{
		"--kubeconfig=" + c.path("kube-scheduler.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	}
}
