package certificate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configurations are the objects that name the webhooks that the apiserver asks, and the authorities that it trusts.
type configurations []configuration

// configuration is one of them. The two kinds have nothing in common but their clients.
type configuration struct {
	object  client.Object
	clients []admissionv1.WebhookClientConfig // by index
}

// read returns those that are there; both kinds bear the same name.
func read(ctx context.Context, reader client.Reader, name string) (configurations, error) {
	var found configurations
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	ok, err := get(ctx, reader, name, validating)
	if err != nil {
		return nil, err
	}
	if ok {
		c := configuration{object: validating}
		for i := range validating.Webhooks {
			c.clients = append(c.clients, validating.Webhooks[i].ClientConfig)
		}
		found = append(found, c)
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	if ok, err = get(ctx, reader, name, mutating); err != nil {
		return nil, err
	}
	if ok {
		c := configuration{object: mutating}
		for i := range mutating.Webhooks {
			c.clients = append(c.clients, mutating.Webhooks[i].ClientConfig)
		}
		found = append(found, c)
	}
	return found, nil
}

func get(ctx context.Context, reader client.Reader, name string, into client.Object) (found bool, err error) {
	err = reader.Get(ctx, types.NamespacedName{Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the webhook configurations: %w", err)
	}
	return true, nil
}

// hosts are the names under which the apiserver calls, sorted.
func (all configurations) hosts() []string {
	var hosts []string
	for _, c := range all {
		for _, to := range c.clients {
			if host := hostOf(to); host != "" && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	slices.Sort(hosts)
	return hosts
}

func hostOf(to admissionv1.WebhookClientConfig) string {
	switch {
	case to.Service != nil:
		return to.Service.Name + "." + to.Service.Namespace + ".svc"
	case to.URL != nil:
		if parsed, err := url.Parse(*to.URL); err == nil {
			return parsed.Hostname()
		}
	}
	return ""
}

// operation is one of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// trust returns the patch that writes the bundle into every client, nil where it is there already. The indices hold
// for this resource version only, so that is a precondition.
func (c configuration) trust(bundle []byte) ([]byte, error) {
	version, err := json.Marshal(c.object.GetResourceVersion())
	if err != nil {
		return nil, fmt.Errorf("encoding the resource version: %w", err)
	}
	value, err := json.Marshal(bundle)
	if err != nil {
		return nil, fmt.Errorf("encoding the authorities: %w", err)
	}
	patch := []operation{{"test", "/metadata/resourceVersion", version}}
	for i, to := range c.clients {
		if !bytes.Equal(to.CABundle, bundle) {
			patch = append(patch, operation{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), value})
		}
	}
	if len(patch) == 1 {
		return nil, nil
	}
	return json.Marshal(patch)
}
