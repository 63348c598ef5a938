# The first days of a new user. As transcript.sh, and of what it does not have.

kubectl create namespace d
kubectl config set-context --current --namespace d >/dev/null
kubectl cluster-info

kubectl create deployment shop --image=shop:1 --replicas=2 --port=8080
kubectl wait deployment shop --for=jsonpath='{.status.replicas}'=2 --timeout=60s
kubectl get deployment shop -o wide

kubectl set env deployment/shop COLOR=blue SIZE=3
kubectl set env deployment/shop --list
kubectl set env deployment/shop SIZE-
kubectl get deployment shop -o jsonpath='{.spec.template.spec.containers[0].env}'

kubectl set resources deployment shop --requests=cpu=100m,memory=64Mi --limits=cpu=1
kubectl get deployment shop -o jsonpath='{.spec.template.spec.containers[0].resources}'

kubectl create serviceaccount robot
kubectl set serviceaccount deployment shop robot
kubectl get deployment shop -o jsonpath='{.spec.template.spec.serviceAccountName}'

kubectl rollout pause deployment shop
kubectl set image deployment/shop shop=shop:2
kubectl rollout pause deployment shop
kubectl rollout resume deployment shop
kubectl rollout restart deployment shop
kubectl rollout status deployment shop --timeout=2s

kubectl get deployment shop -o go-template='{{range .spec.template.spec.containers}}{{.name}} is {{.image}}{{"\n"}}{{end}}'

kubectl get deployment,service,configmap -o custom-columns=KIND:.kind,NAME:.metadata.name --no-headers

kubectl scale deployment shop --replicas=0
kubectl wait pod -l app=shop --for=delete --timeout=60s
kubectl scale deployment shop --current-replicas=5 --replicas=1

kubectl run lone --image=lone:1 --labels=tier=front,team=a --env=A=1 --port=80
kubectl run other --image=other --dry-run=server -o name
kubectl get pods --show-labels
kubectl get pods -L tier,team --sort-by=.metadata.name
kubectl label pod lone --list | sort
kubectl label pods --all team=b
kubectl label pods --all team=b --overwrite
kubectl annotate pod lone note=hello note=again

kubectl logs lone
kubectl exec lone -- ls
kubectl attach lone
kubectl port-forward pod/lone 8080:80
kubectl cp lone:/tmp/file /tmp/file

kubectl debug lone --image=tools -c look
kubectl get pod lone -o jsonpath='{.spec.ephemeralContainers[*].name}'

kubectl top pods

kubectl top nodes

kubectl expose pod lone --port=80 --target-port=8080 --name=door
kubectl get service door -o jsonpath='{.spec.selector} {.spec.ports}'
kubectl delete service door

kubectl events --for pod/lone
kubectl get events --field-selector involvedObject.name=lone

mkdir -p base && cat > base/kustomization.yaml <<'Y'
namePrefix: my-
labels: [{pairs: {made: here}}]
resources: [map.yaml]
configMapGenerator: [{name: made, literals: [a=1]}]
Y
cat > base/map.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
data: {x: "1"}
Y
kubectl apply -k base
sed -i 's/"1"/"2"/' base/map.yaml
kubectl diff -k base | grep '^[+-] '
kubectl apply -k base --dry-run=server
kubectl apply -k base
kubectl get -k base -o name
kubectl delete -k base
rm -r base

kubectl create configmap rules --from-literal=a=1 --dry-run=client -o yaml | kubectl apply -f -
kubectl apply view-last-applied configmap rules
kubectl create configmap rules --from-literal=a=2 --dry-run=client -o yaml > rules.yaml
kubectl apply set-last-applied -f rules.yaml
kubectl get -f rules.yaml -o jsonpath='{.data}'
kubectl replace --force -f rules.yaml
kubectl describe -f rules.yaml
kubectl delete -f rules.yaml
kubectl delete -f rules.yaml
kubectl delete -f rules.yaml --ignore-not-found
rm rules.yaml

KUBE_EDITOR="sed -i s/lone:1/lone:2/" kubectl edit pod lone
KUBE_EDITOR=true kubectl edit pod lone

kubectl patch pod lone --type=json -p '[{"op":"test","path":"/metadata/labels/tier","value":"back"},{"op":"remove","path":"/metadata/labels/tier"}]'
kubectl patch pod lone --type=json -p '[{"op":"replace","path":"/metadata/labels/tier","value":"back"}]'
kubectl patch pod lone --subresource=status -p '{"status":{"message":"told"}}'
kubectl get pod lone -o jsonpath='{.metadata.labels.tier} {.status.message}'

kubectl get deployment shop --subresource=scale
kubectl patch deployment shop --subresource=scale --type=merge -p '{"spec":{"replicas":2}}'
kubectl get deployment shop --subresource=scale -o jsonpath='{.spec.replicas}'

kubectl create job once --image=work -- run --fast
kubectl get job once -o jsonpath='{.spec.template.spec.containers[0].command} {.spec.template.spec.restartPolicy}'
kubectl delete job once

kubectl create cronjob nightly --image=work --schedule='0 3 * * *' -- run
kubectl patch cronjob nightly -p '{"spec":{"suspend":true}}'
kubectl get cronjob nightly
kubectl delete cronjob nightly

kubectl wait pod lone --for=jsonpath='{.metadata.labels.tier}'=back --timeout=5s
kubectl wait pod lone --for=condition=Ready --timeout=1s
kubectl wait pod none --for=create --timeout=1s
kubectl wait pod none --for=delete --timeout=1s

kubectl get pods --chunk-size=1 -o name | grep -c pod/
kubectl get pods --field-selector=status.phase=Pending,spec.nodeName= -o name | grep lone
kubectl get pods --field-selector=spec.color=red
kubectl get pods -l 'tier in (back,front),team!=a' -o name
kubectl get pods -l 'tier in back'

kubectl create secret docker-registry pull --docker-server=registry.example --docker-username=u --docker-password=p
kubectl get secret pull -o jsonpath='{.type} {.data}'
kubectl describe secret pull
kubectl delete secret pull

openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.crt -days 1 -subj /CN=shop 2>/dev/null
kubectl create secret tls cert --cert=tls.crt --key=tls.key
kubectl get secret cert -o jsonpath='{.type}'
kubectl create secret tls broken --cert=tls.key --key=tls.key
rm tls.key tls.crt

kubectl create clusterrole reader-d --verb=get,list --resource=pods,pods/log,deployments.apps
kubectl create clusterrole all-readers-d --aggregation-rule=d=yes
kubectl create clusterrolebinding readers-d --clusterrole=reader-d --group=team --serviceaccount=d:robot
kubectl describe clusterrolebinding readers-d
kubectl get clusterrole reader-d -o jsonpath='{.rules}'
kubectl auth can-i delete nodes --subresource=status
kubectl auth can-i nonsense things
kubectl delete clusterrole reader-d all-readers-d
kubectl delete clusterrolebinding readers-d

cat > rights.yaml <<'Y'
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: seen}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
Y
kubectl auth reconcile -f rights.yaml
sed -i 's/get/list/' rights.yaml
kubectl auth reconcile -f rights.yaml
kubectl get role seen -o jsonpath='{.rules[*].verbs}'
rm rights.yaml

kubectl create quota small --hard=configmaps=2
kubectl wait quota small --for=jsonpath='{.status.hard.configmaps}'=2 --timeout=60s
for n in 1 2 3; do kubectl create configmap full-$n; done
kubectl delete quota small
kubectl create configmap full-3

kubectl create poddisruptionbudget keep --selector=app=shop --min-available=50%
kubectl get pdb keep
kubectl describe pdb keep | head -5
kubectl delete pdb keep

kubectl apply -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: wrong, labels: {"a b": c}}
spec: {containers: [{name: UPPER, image: ""}, {name: c, image: i, resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}}], restartPolicy: Sometimes}
Y

kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: mismatched}
spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: b}}, spec: {containers: [{name: c, imagee: i}]}}}
Y

kubectl apply --validate=false -f - <<'Y'
apiVersion: apps/v2
kind: Deployment
metadata: {name: tomorrow}
Y

kubectl delete pod lone --grace-period=30 --wait=false
kubectl delete pod lone --force --grace-period=0
kubectl delete deployment shop --cascade=orphan
kubectl get replicasets -l app=shop -o name | grep -c shop
kubectl delete replicasets,pods -l app=shop --force --grace-period=0 --wait=false | wc -l | grep -c '[0-9]'

kubectl api-resources --namespaced=false --verbs=patch,watch -o name | grep -E '^(nodes|namespaces|persistentvolumes)$'

kubectl get --raw '/api/v1/namespaces/d/configmaps?labelSelector=none=such' | tr ',' '\n' | head -2

kubectl get nonsense
kubectl get pod/none configmap/none
kubectl delete nonsense --all
kubectl create -f https://127.0.0.1:1/none.yaml 2>&1 | tail -1

kubectl delete configmaps --all
kubectl delete namespace d --timeout=60s
kubectl get all -n d
