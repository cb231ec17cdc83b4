# programs: ssh-keygen
# Keys differ from run to run; kinds, lengths and that they fit together do not.
for kind in ed25519 'ecdsa -b 384' 'rsa -b 2048'; do
	# shellcheck disable=SC2086 # kind and length are words
	ssh-keygen -q -t $kind -N '' -C test -f "key-${kind%% *}"
	ssh-keygen -l -f "key-${kind%% *}" | awk '{ print $1, length($2), $3, $4 }'
	ssh-keygen -y -f "key-${kind%% *}" | cmp - "key-${kind%% *}.pub" && echo "public key derived"
done
echo "a message" >message
echo "test $(cat key-ed25519.pub)" >signers
ssh-keygen -q -Y sign -f key-ed25519 -n file message 2>/dev/null
ssh-keygen -Y verify -f signers -I test -n file -s message.sig <message | cut -d' ' -f1-6
ssh-keygen -q -p -P '' -N 'a pass phrase' -f key-rsa
ssh-keygen -y -P 'a pass phrase' -f key-rsa | cut -d' ' -f1
echo "host.example.org $(cut -d' ' -f1,2 key-ecdsa.pub)" >known
ssh-keygen -H -f known >/dev/null 2>&1
ssh-keygen -F host.example.org -f known | grep -c ecdsa
