package cli

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// In a pod the machine's own addresses are the manager's, whatever kubeconfig it is given there.
func TestManagerInAPodKeepsPoliciesOffItself(t *testing.T) {
	for name, test := range map[string]struct {
		host     string
		loopback bool
	}{
		"in a pod":         {host: "10.96.0.1", loopback: false},
		"beside a cluster": {host: "", loopback: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", test.host)
			config := genericclioptions.NewConfigFlags(false)
			*config.APIServer, *config.Namespace = "https://127.0.0.1:6443", "usher-system"
			o := &managerOptions{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), config: config}
			o.manager.Certificates, o.manager.EvictionController, o.memory = "secret", "auto", "160Mi"
			if err := o.Complete(); err != nil {
				t.Fatal(err)
			}
			if o.manager.Loopback != test.loopback {
				t.Errorf("policies may name the machine: %t, want %t", o.manager.Loopback, test.loopback)
			}
		})
	}
}

func TestManagerKnowsWhenToRunTheEvictionController(t *testing.T) {
	for value, ok := range map[string]bool{"auto": true, "always": true, "": false, "true": false} {
		config := genericclioptions.NewConfigFlags(false)
		*config.APIServer, *config.Namespace = "https://127.0.0.1:6443", "usher-system"
		o := &managerOptions{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), config: config}
		o.manager.Certificates, o.manager.EvictionController, o.memory = "secret", value, "160Mi"
		if err := o.Complete(); (err == nil) != ok {
			t.Errorf("%q: %v", value, err)
		}
	}
}
