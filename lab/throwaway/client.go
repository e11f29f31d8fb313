package throwaway

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"usher.sh/usher/api/v1alpha1"
)

// UsherClients returns two clients for Usher's kinds: one that writes, and one that watches.
func (l *Lab) UsherClients() (client.Client, rest.Interface, error) {
	config, err := l.RESTConfig()
	if err != nil {
		return nil, nil, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	writer, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	watcher, err := rest.RESTClientFor(config)
	return writer, watcher, err
}
